#!/bin/sh
# Gets what the tests need beside Python packages: kcat, ip, clients of ksqlDB for Node.js, Java, Maven, and the jars of
# tests/java, tests/java/registry, tests/spark/connector and tests/spark/avro. Quick when all is there. What cannot be
# had is named in a hint; the tests that need it then skip and say so.
set -u
cd "$(dirname "$0")" || exit 1

hint() { echo "tests/tools.sh: $*" >&2; }

install() { # install PROGRAM PACKAGE...
    program=$1
    shift
    command -v "$program" >/dev/null 2>&1 && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "tests/tools.sh: installing $*"
        export DEBIAN_FRONTEND=noninteractive
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
            { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
    fi
    command -v "$program" >/dev/null 2>&1 || { hint "$program is missing; on Debian or Ubuntu: sudo apt-get install $*"; return 1; }
}

install kcat kcat
install ip iproute2
./unpack.sh 'usr/lib/postgresql/*/bin/initdb' postgresql spark/target/postgres
./unpack.sh usr/sbin/mariadbd mariadb-server-core compat/target/mariadb
install node nodejs && install npm npm && compat/get_ksqldb_clients.sh
install javac default-jdk-headless || exit 0
install mvn maven || exit 0

# get_jars DIRECTORY: the jars of its pom.xml, in its target/lib.
get_jars() {
    stamp=$1/target/lib/.complete
    cmp -s "$1/pom.xml" "$stamp" && return 0
    echo "tests/tools.sh: getting the jars of tests/$1/pom.xml"
    copy="dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=target/lib"
    rm -rf "$1/target/lib"
    # Offline first: with a warm local repository nothing is asked of the network.
    # shellcheck disable=SC2086
    if (cd "$1" && { mvn -B -q -o $copy >/dev/null 2>&1 || mvn -B -q $copy; }); then
        cp "$1/pom.xml" "$stamp"
    else
        hint "Maven could not get the jars; the tests that need them will skip. Try: cd tests/$1 && mvn $copy"
    fi
}

get_jars java
get_jars java/registry
get_jars spark/connector
get_jars spark/avro
[ "${HEADWATER_SOAK:-}" = 1 ] && get_jars spark/hdfs && get_jars compat/debezium && get_jars compat/cassandra && get_jars compat/opensearch && compat/get_ferretdb.sh
exit 0
