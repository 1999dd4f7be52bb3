// The npm package `ksqldb-js` (HTTP/1.1 by axios, HTTP/2 for rows): what its users do. Arguments: the server's URL and a name that is free.
// Prints a line of JSON for each step.
const Ksqldb = require("ksqldb-js");

const client = new Ksqldb({ ksqldbURL: process.argv[2] });
const name = process.argv[3];
const show = (step, value) => console.log(JSON.stringify([step, value]));
const refused = (asked) => asked.then(() => "taken", (error) => String(error));

async function main() {
    const made = await client.createStream(`${name}_words`, ["word VARCHAR", "n INT"], `${name}-words`, "json", 1);
    show("stream", made.data[0].commandStatus.status);
    show("inserted", (await client.insertStream(`${name}_words`, [{ word: "tree", n: 1 }, { word: "wind", n: 2 }])).map((each) => each.status));
    show("pulled", (await client.pull(`SELECT word, n FROM ${name}_words WHERE n > 1;`)).slice(1));
    show("between", (await client.pullFromTo(`${name}_words`, "Europe/Berlin", ["2020-01-01", "00", "00", "00"])).map((row) => row[0]));
    const properties = { kafka_topic: `${name}-long`, value_format: "json", partitions: 1 };
    const query = await client.createStreamAs(`${name}_long`, ["word"], `${name}_words`, properties, "LEN(word) > 3");
    show("query", query.startsWith(`CSAS_${name.toUpperCase()}_LONG_`));
    const grouped = { WHERE: "word IS NOT NULL", GROUP_BY: "word" };
    const table = await client.createTableAs(`${name}_counts`, `${name}_words`, ["word", "COUNT(*) AS c"], { topic: `${name}-counts` }, grouped);
    show("table", table.data[0].commandStatus.status);
    show("status", (await client.inspectQueryStatus(`stream/\`${name.toUpperCase()}_LONG\`/create`)).data.status);
    show("server", [
        (await client.inspectServerInfo()).data.KsqlServerInfo.serverStatus,
        (await client.inspectServerHealth()).data.isHealthy,
        Object.values((await client.inspectClusterStatus()).data.clusterStatus).map((each) => each.hostAlive),
        (await client.isValidProperty("auto.offset.reset")).data,
    ]);
    show("refused", [await refused(client.pull(`SELECT nothing FROM ${name}_words;`)), await refused(client.isValidProperty("ksql.service.id"))]);
    const pushed = [];
    await new Promise((resolve, reject) => {
        client
            .push(`SELECT word FROM ${name}_words EMIT CHANGES LIMIT 1;`, (row) => pushed.push(JSON.parse(row)) === 2 && resolve())
            .then(() => client.insertStream(`${name}_words`, [{ word: "late", n: 3 }]))
            .catch(reject);
    });
    show("pushed", pushed.slice(1));
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
