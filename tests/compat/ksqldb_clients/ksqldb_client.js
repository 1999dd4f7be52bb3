// The npm package `ksqldb-client` (HTTP/2): what its users do. Arguments: the server's URL and a name that is free. Prints a line of JSON for
// each step.
const KsqldbClient = require("ksqldb-client");

const url = new URL(process.argv[2]);
const name = process.argv[3];
const show = (step, value) => console.log(JSON.stringify([step, value]));

async function main() {
    const client = new KsqldbClient({ host: `http://${url.hostname}`, port: url.port, timeout: 60000 });
    await client.connect();
    const variables = { sessionVariables: { STREAM: `${name}_words`, TOPIC: `${name}-words` } };
    const create = "CREATE STREAM ${STREAM} (word VARCHAR, n INT) WITH (kafka_topic='${TOPIC}', partitions=1, value_format='JSON');";
    show("statement", (await client.executeStatement(create, variables)).data.rows[0].commandStatus.status);
    const inserted = [];
    for (const row of [{ word: "tree", n: 1 }, { word: "wind", n: 2 }]) {
        inserted.push((await client.insertInto(`${name}_words`, row)).data.rows[0].status);
    }
    show("inserted", inserted);
    show("pulled", (await client.query(`SELECT word, n FROM ${name}_words WHERE n > 1;`)).data.rows);
    const wrong = await client.query("SELECT * FROM;");
    show("wrong", [wrong.status, wrong.error.error_code, wrong.error.message]);
    const pushed = [];
    const ended = await client.streamQuery(
        `SELECT word FROM ${name}_words EMIT CHANGES;`,
        async (data) => {
            (data.rows || []).forEach((row) => pushed.push(row));
            if (pushed.length === 2) await client.terminatePushQuery(data.metadata.queryId);
        },
        { streamsProperties: { "auto.offset.reset": "earliest" } },
    );
    show("pushed", [ended.status, pushed]);
    show("streams", (await client.listStreams()).map((each) => each.name).filter((each) => each.startsWith(name.toUpperCase())));
    show("described", (await client.describeSource(`${name}_words`)).fields.map((each) => [each.name, each.schema.type]));
    show("lists", [await client.listTables(), await client.listTopics(), await client.listQueries()].map(Array.isArray));
    await client.disconnect();
}

main().catch((error) => { console.error(error); process.exit(1); });
