# Upstream's clusteradm and this binary in its place, with the same lines on the same hub: they print the same and end the same.
# The branches of upstream's trees have no order, so the lines of both are sorted.

file same.sh
    #!/bin/bash
    # Says "same", or what differs.
    lines() { sed -e 's/^[ │├└─]*//' -e 's/ *$//' -e "s#^$1 #clusteradm #" | sort; }
    theirs=$(clusteradm "$@" 2>&1; echo "exit $?")
    ours=$(drover clusteradm "$@" 2>&1; echo "exit $?")
    diff <(echo "$theirs" | lines clusteradm) <(echo "$ours" | lines '[^ ]*drover clusteradm') && echo same

file flags.sh
    #!/bin/bash
    # The flags of a command with their defaults; the sentences are everybody's own.
    flags() { "$@" --help | grep -e '^    --.*:$' -e '^    -., --.*:$' | tr -d "'"; }
    for command in "$@"; do
        diff <(flags clusteradm $command) <(flags drover clusteradm $command) > difference || { echo "$command"; cat difference; }
    done

file token.sh
    #!/bin/bash
    # What a script cuts out of `get token`, but for the token.
    text() { "$@" get token | sed -e 's/^token=.*/token=T/' -e 's/--hub-token [^ ]*/--hub-token T/' -e 's/^[^ ]*drover //'; }
    keys() { "$@" get token -o json | jq -r 'keys[]'; }
    diff <(text clusteradm) <(text drover clusteradm) && echo same
    diff <(keys clusteradm) <(keys drover clusteradm) && echo same

file manifest.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: hello, namespace: default}
    data: {color: red}

start up $ drover up --clusters 2

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ bash flags.sh accept clean init join unjoin 'addon create' 'addon disable' 'addon enable' 'clusterset bind' 'clusterset set' 'clusterset unbind' 'create clusterset' 'create placement' 'create sampleapp' 'create work' 'delete clusterset' 'delete token' 'delete work' 'get addon' 'get clusters' 'get clustersets' 'get hub-info' 'get klusterlet-info' 'get placements' 'get token' 'get works' 'install hub-addon' 'uninstall hub-addon' 'upgrade clustermanager' 'upgrade klusterlet' 'proxy health' 'proxy kubectl'

# What ours makes, both show.
$ drover clusteradm create clusterset blue && drover clusteradm clusterset bind blue && drover clusteradm clusterset set blue --clusters cluster1 --namespaces a,b > /dev/null
Clusterset blue is created
Clusterset blue is bound to Namespace default

$ drover clusteradm create placement p --clustersets blue && drover clusteradm create work w -f manifest.yaml --clusters cluster1,cluster2
Placement 'p' has been created in 'default' namespace
create work w in cluster cluster1
create work w in cluster cluster2

$ drover clusteradm addon create hello -f manifest.yaml > /dev/null && drover clusteradm addon enable --names hello --clusters cluster1 > /dev/null

$ kubectl wait -n cluster1 manifestwork/w managedclusteraddon/hello --for=condition=Available --timeout=60s && kubectl wait -n cluster2 manifestwork/w --for=condition=Available --timeout=60s
...
manifestwork.work.open-cluster-management.io/w condition met

$ kubectl wait placement/p --for=condition=PlacementSatisfied --timeout=60s
placement.cluster.open-cluster-management.io/p condition met

$ for output in tree table; do for what in clusters clustersets placements 'placements p -n default' addon 'addon hello --clusters cluster1' 'works -c cluster1' 'works w --clusters=cluster2,cluster1'; do bash same.sh get $what -o $output; done; done | sort | uniq -c
     16 same

# Mistakes.
$ for line in 'get clusters --foo' 'get clusters -x' 'get clusters a' 'get clusters -o wide' 'get works' 'get works -c' 'get works --clusters ,' 'create placement' 'create work w' 'create work w --clusters cluster1' 'create work w --placement p' 'create work w -r' 'create clusterset' 'create clusterset a b' 'clusterset set' 'clusterset set blue' 'delete work' 'delete work w' 'delete clusterset default' 'delete clusterset nothing' 'delete clusterset blue' 'addon enable' 'addon enable --names a' 'addon create' 'addon create a' 'addon disable' 'accept' 'join' 'join --hub-token a' 'join --hub-token a --hub-apiserver b' '--timeout=x get clusters' 'gte' '--dry-run=maybe init' 'version' 'proxy health'; do bash same.sh $line; done | sort | uniq -c
     35 same

# What either prints goes on in a shell.
$ bash token.sh
same
same
