# A newcomer deploys an application from a Git repository in a folder to two clusters, with nothing but this machine. A new commit
# follows, what it drops goes, and a source that is broken takes nothing away.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file shop/web.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: web}
    data: {color: blue}

file shop/old.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: old}

$ git -C shop init --quiet --initial-branch main && git -C shop add . && git -C shop -c user.name=a -c user.email=a@example.com commit --quiet -m first

start up $ drover up --addons application-manager --git-folder shop

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover create channel shop --git shop
Channel 'shop' has been created in 'default' namespace

$ drover create subscription shop --channel shop --clusters cluster1,cluster2
Subscription 'shop' has been created in 'default' namespace

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap web -o jsonpath='{.data.color}{"\n"}'
blue

wait $ kubectl --kubeconfig .drover/cluster2.kubeconfig get configmap web old -o name
configmap/web
configmap/old

wait $ drover get subscriptions -o wide | awk '{print $1, $2, $3, $4, $5, $6}'
NAMESPACE NAME CHANNEL PHASE WINDOW DEPLOYED
default shop default/shop Propagated Active 2/2

$ kubectl get manifestwork -n cluster1 default-shop -o jsonpath='{.spec.workload.manifests[1].spec.placement.local}{"\n"}'
true

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get appsubstatus shop -o jsonpath='{range .statuses.packages[*]}{.kind} {.name} {.phase}{"\n"}{end}'
ConfigMap old Deployed
ConfigMap web Deployed

# The next commit.
file shop/web.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: web}
    data: {color: green}

$ git -C shop rm --quiet old.yaml && git -C shop add . && git -C shop -c user.name=a -c user.email=a@example.com commit --quiet -m second

$ drover app refresh shop
clusters look at the source of default/shop now

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap web -o jsonpath='{.data.color}{"\n"}'
green

wait $ kubectl --kubeconfig .drover/cluster2.kubeconfig get configmap -o name | grep -v kube-root
configmap/web

# Git servers of this machine tell of changes at the address that `drover up` prints.
let HOOKS $ sed 's/.*"git-webhooks":\([0-9]*\).*/\1/' .drover/ports.json

let SHOP $ kubectl get channel shop -o jsonpath='{.spec.pathname}'

$ kubectl annotate channel shop apps.open-cluster-management.io/webhook-enabled=true
channel.apps.open-cluster-management.io/shop annotated

file shop/web.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: web, namespace: front}
    data: {color: red}

$ git -C shop add . && git -C shop -c user.name=a -c user.email=a@example.com commit --quiet -m third

wait $ curl --silent --output /dev/null --write-out '%{http_code}\n' -H 'X-Github-Event: push' -H 'Content-Type: application/json' -d "{\"repository\":{\"clone_url\":\"$SHOP\",\"html_url\":\"$SHOP\",\"full_name\":\"a/shop\"}}" http://127.0.0.1:$HOOKS/webhook && kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap web -o jsonpath='{.data.color}{"\n"}'
200
red

# Who has written a Subscription is in it. A subscription administrator's deploys into other namespaces, too.
$ kubectl get appsub shop -o jsonpath='{.metadata.annotations.open-cluster-management\.io/user-identity}' | base64 -d && echo
kubernetes-admin

$ kubectl patch clusterrolebinding open-cluster-management:subscription-admin --type=merge -p '{"subjects":[{"kind":"User","name":"kubernetes-admin","apiGroup":"rbac.authorization.k8s.io"}]}'
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:subscription-admin patched

wait $ drover app refresh shop >/dev/null && kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap -n front web -o name
configmap/web

$ kubectl patch clusterrolebinding open-cluster-management:subscription-admin --type=json -p '[{"op":"remove","path":"/subjects"}]'
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:subscription-admin patched

wait $ drover app refresh shop >/dev/null && kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap web -o jsonpath='{.data.color}{"\n"}'
red

# A namespace has one Channel that is no Git repository.
$ drover create channel charts --helm https://charts.example.com
Channel 'charts' has been created in 'default' namespace

$ drover create channel more --helm https://charts.example.com 2>&1 | grep -o 'the namespace default already contains a channel: charts'
the namespace default already contains a channel: charts

# A file that cannot be read is told, and what is deployed stays.
file shop/web.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: [}

$ git -C shop add . && git -C shop -c user.name=a -c user.email=a@example.com commit --quiet -m broken && drover app refresh shop
clusters look at the source of default/shop now

wait $ kubectl get appsub shop -o jsonpath='{.status.phase}{"\n"}'
PropagationFailed

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap web -o jsonpath='{.data.color}{"\n"}'
red

# With the Subscription goes what it has deployed.
$ kubectl delete appsub shop -o name
subscription.apps.open-cluster-management.io/shop

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap -o name | grep -c web || true
0

stop up
