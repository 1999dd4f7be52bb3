#!/bin/sh
# Gets what the tests need beside Python packages: kcat, Java, Maven, and the jars of tests/java/pom.xml.
# Quick when all is there. What cannot be had is named in a hint; the tests that need it then skip and say so.
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
install javac default-jdk-headless || exit 0
install mvn maven || exit 0

cd java || exit 1
stamp=target/lib/.complete
if ! cmp -s pom.xml "$stamp"; then
    echo "tests/tools.sh: getting the jars of tests/java/pom.xml"
    copy="dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=target/lib"
    rm -rf target/lib
    # Offline first: with a warm local repository nothing is asked of the network.
    # shellcheck disable=SC2086
    if mvn -B -q -o $copy >/dev/null 2>&1 || mvn -B -q $copy; then
        cp pom.xml "$stamp"
    else
        hint "Maven could not get the jars; the tests with Java clients will skip. Try: cd tests/java && mvn $copy"
    fi
fi
exit 0
