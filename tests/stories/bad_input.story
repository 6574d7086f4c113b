# What is wrong with what was typed is told in one sentence that names the thing and the fix. Nothing is half done.
# Embedded only: the data directories and ports of `drover up` are what it is about.

file malformed.kubeconfig
    clusters: [
      token: secret

file nowhere.kubeconfig
    apiVersion: v1
    kind: Config
    current-context: hub
    clusters: [{name: hub, cluster: {server: "https://127.0.0.1:1"}}]
    contexts: [{name: hub, context: {cluster: hub, user: admin}}]
    users: [{name: admin, user: {token: secret}}]

# Its client certificate was valid for the first day of 2020.
file expired.kubeconfig
    apiVersion: v1
    kind: Config
    current-context: hub
    clusters: [{name: hub, cluster: {server: "https://127.0.0.1:1"}}]
    contexts: [{name: hub, context: {cluster: hub, user: admin}}]
    users:
      - name: admin
        user:
          client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJBakNCcWdJQkFUQUtCZ2dxaGtqT1BRUURBakFPTVF3d0NnWURWUVFEREFOdmJHUXdIaGNOTWpBd01UQXgKTURBd01EQXdXaGNOTWpBd01UQXlNREF3TURBd1dqQU9NUXd3Q2dZRFZRUUREQU52YkdRd1dUQVRCZ2NxaGtqTwpQUUlCQmdncWhrak9QUU1CQndOQ0FBUzRjTVQwb092KzdHTXR4UkdjQVdZOTl0RzQ4OE45N0p5WDQrUGxsUWRkCmVZaGNoUTl4RTFJNDBFNjdqK0JpQzJrdlZGTzRKdUx3Z2dTdjB4WWRiVlpiTUFvR0NDcUdTTTQ5QkFNQ0EwY0EKTUVRQ0lCK29XMzFYMXN4WDVBSjB5ZnBHS2wxNmdJRFg4MVVvaGNLTGpJVXdjRjUyQWlCVGFUYkRqS1N6M0JXQQptT29IbUZxSVlMaEZNS0dGc01ZdFp4cHNyOXp6UkE9PQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==
          client-key-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJBakNCcWdJQkFUQUtCZ2dxaGtqT1BRUURBakFPTVF3d0NnWURWUVFEREFOdmJHUXdIaGNOTWpBd01UQXgKTURBd01EQXdXaGNOTWpBd01UQXlNREF3TURBd1dqQU9NUXd3Q2dZRFZRUUREQU52YkdRd1dUQVRCZ2NxaGtqTwpQUUlCQmdncWhrak9QUU1CQndOQ0FBUzRjTVQwb092KzdHTXR4UkdjQVdZOTl0RzQ4OE45N0p5WDQrUGxsUWRkCmVZaGNoUTl4RTFJNDBFNjdqK0JpQzJrdlZGTzRKdUx3Z2dTdjB4WWRiVlpiTUFvR0NDcUdTTTQ5QkFNQ0EwY0EKTUVRQ0lCK29XMzFYMXN4WDVBSjB5ZnBHS2wxNmdJRFg4MVVvaGNLTGpJVXdjRjUyQWlCVGFUYkRqS1N6M0JXQQptT29IbUZxSVlMaEZNS0dGc01ZdFp4cHNyOXp6UkE9PQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==

file newer/format
    99

set NAME=--cluster-name cluster3

# A cluster's name.
$ drover join --embedded --cluster-name Cluster_3 --bootstrap-kubeconfig nowhere.kubeconfig 2>&1
error: "Cluster_3" cannot name a cluster: it contains 'C'; use up to 63 lower-case letters, digits and '-', ...
exit 1

$ drover agent --cluster-name cluster.3 2>&1
error: "cluster.3" cannot name a cluster: it contains '.'; use up to 63 lower-case letters, digits and '-', ...
exit 1

# A kubeconfig that is missing, malformed, points nowhere or has expired.
$ drover join --embedded $NAME --bootstrap-kubeconfig missing.kubeconfig 2>&1
error: kubeconfig missing.kubeconfig does not exist: check the path, or write the file first
exit 1

$ drover hub --kubeconfig missing.kubeconfig 2>&1
error: there is no kubeconfig at missing.kubeconfig: check the path given with --kubeconfig or KUBECONFIG
exit 1

$ drover join --embedded $NAME --hub-kubeconfig malformed.kubeconfig 2>&1
error: malformed.kubeconfig is not a kubeconfig: it could not be parsed as YAML at line ...
exit 1

$ drover join --embedded $NAME --bootstrap-kubeconfig malformed.kubeconfig 2>&1
error: kubeconfig malformed.kubeconfig is malformed (...): it must be a YAML document of kind Config with clusters, users and contexts
exit 1

$ drover join --embedded $NAME --bootstrap-kubeconfig nowhere.kubeconfig 2>&1
error: could not ask the hub to join: nothing listens at https://127.0.0.1:1, the server that the bootstrap kubeconfig names; ...
exit 1

$ drover hub --kubeconfig nowhere.kubeconfig 2>&1
error: could not start the hub: nothing listens at https://127.0.0.1:1, the server that nowhere.kubeconfig names; ...
exit 1

$ drover agent $NAME --kubeconfig nowhere.kubeconfig 2>&1
error: could not start the agent: nothing listens at https://127.0.0.1:1, the server that nowhere.kubeconfig names; ...
exit 1

$ drover join --embedded $NAME --bootstrap-kubeconfig expired.kubeconfig 2>&1
error: the client certificate in kubeconfig expired.kubeconfig expired at 2020-01-02T00:00:00Z: get a new kubeconfig from the hub
exit 1

$ drover get clusters --kubeconfig expired.kubeconfig 2>&1
error: the client certificate in kubeconfig expired.kubeconfig expired at 2020-01-02T00:00:00Z: get a new kubeconfig from the hub
exit 1

# A data directory of a newer version.
$ drover up --data-dir newer 2>&1
error: the data directory newer has format 99, written by a newer drover; this one knows format 1: use the newer binary, or another directory with --data-dir
exit 1

$ ls -A newer
format

# A command line that is wrong in itself.
$ drover up --clusters 501 2>&1
error: invalid value '501' for '--clusters <N>': ...
...
exit 2

$ drover join --embedded $NAME 2>&1
error: the following required arguments were not provided:
...
exit 2

$ drover join --embedded $NAME --bootstrap-kubeconfig nowhere.kubeconfig --kubeconfig nowhere.kubeconfig 2>&1
error: --embedded and --kubeconfig exclude each other: ...
...
exit 2

$ ls -A
expired.kubeconfig
malformed.kubeconfig
newer
nowhere.kubeconfig

# The rest needs a hub.
start up $ drover up --clusters 0

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

let PORT $ kubectl config view -o jsonpath='{.clusters[0].cluster.server}' | sed 's/.*://'

# What a hub does not have is not nothing.
$ drover get works --clusters nosuch 2>&1
error: there is no cluster nosuch on this hub; `drover get clusters` lists those there are
exit 1

$ drover get placements nosuch 2>&1
error: there is no placement nosuch on this hub; `drover get placements` lists those there are
exit 1

$ drover get addons nosuch 2>&1
error: there is no add-on nosuch on this hub; `drover addon list` lists those there are
exit 1

$ drover get clusters nosuch -l env=prod 2>&1
error: the argument '[NAME]...' cannot be used with '--selector <SELECTOR>'
...
exit 2

# A data directory of another process.
$ drover up 2>&1
error: the data directory ...drover is in use by process ...; stop it, or choose another one with --data-dir
exit 1

# A port in use.
$ drover up --data-dir other/place --port $PORT 2>&1
error: port ... wanted for hub, is in use; stop who uses it, choose another with --port, or leave --port out to take a free one
exit 1

$ drover join --embedded $NAME --hub-kubeconfig .drover/hub.kubeconfig --port $PORT 2>&1
error: port ... wanted for cluster3, is in use; ...
exit 1

# A hub whose authority is not the one of the kubeconfig.
$ openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=stranger -keyout stranger.key -out stranger.crt 2>/dev/null; cp .drover/hub.kubeconfig stranger.kubeconfig

$ kubectl --kubeconfig stranger.kubeconfig config set-cluster hub --certificate-authority=stranger.crt --embed-certs
Cluster "hub" set.

$ drover join --embedded $NAME --bootstrap-kubeconfig stranger.kubeconfig 2>&1
error: could not ask the hub to join: the certificate of https://127.0.0.1:... is not signed by the authority that the bootstrap kubeconfig trusts; ...
exit 1

$ drover hub --kubeconfig stranger.kubeconfig 2>&1
error: could not start the hub: the certificate of https://127.0.0.1:... is not signed by the authority that stranger.kubeconfig trusts; ...
exit 1

# Nothing has come of any of it.
$ ls -A | grep -v kubeconfig
.drover
newer
stranger.crt
stranger.key

$ kubectl get managedclusters,csr 2>&1
No resources found

stop up
