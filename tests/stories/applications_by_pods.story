# Applications as pods that `install hub-addon` makes with the image of this binary, and their removal. The hub runs with the
# rights of its manifests, and the API server asks it about Channels and about who writes Subscriptions.
# Embedded only: the repository is a folder of this machine, which the nodes open to the pods.

file shop/web.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: web, namespace: front}
    data: {color: blue}

$ git -C shop init --quiet --initial-branch main && git -C shop add . && git -C shop -c user.name=a -c user.email=a@example.com commit --quiet -m first

start up $ drover up --clusters 1 --no-examples --git-folder shop

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover install hub-addon --names application-manager --bundle-version 1.3.1
error: application-manager is this binary, whose image --image names: ...
exit 1

$ drover install hub-addon --names application-manager --create-namespace
Installing built-in application-manager add-on to the Hub cluster...
customresourcedefinition.apiextensions.k8s.io/channels.apps.open-cluster-management.io created
...
deployment.apps/multicluster-operators-subscription created

wait $ kubectl get deployments -n open-cluster-management
NAME                                  READY   UP-TO-DATE   AVAILABLE   AGE
multicluster-operators-subscription   1/1     1            1           <age>

$ drover addon enable --names application-manager --clusters cluster1
Deploying application-manager add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/application-manager condition met

# Both webhooks are told whom to trust.
wait $ for it in validatingwebhookconfiguration/channels.apps.open.cluster.management.webhook.validator mutatingwebhookconfiguration/identities.apps.open-cluster-management.io; do kubectl get $it -o jsonpath='{.webhooks[0].clientConfig.caBundle}' | wc -c | grep -v '^0$' | wc -l; done
1
1

$ drover create channel shop --git shop
Channel 'shop' has been created in 'default' namespace

$ drover create subscription shop --channel shop --clusters cluster1
Subscription 'shop' has been created in 'default' namespace

$ kubectl get appsub shop -o jsonpath='{.metadata.annotations.open-cluster-management\.io/user-identity}' | base64 -d && echo
kubernetes-admin

# Nobody is a subscription administrator: what it deploys is in its own namespace.
wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap -n default web -o jsonpath='{.data.color}{"\n"}'
blue

$ kubectl patch clusterrolebinding open-cluster-management:subscription-admin --type=merge -p '{"subjects":[{"kind":"User","name":"kubernetes-admin","apiGroup":"rbac.authorization.k8s.io"}]}'
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:subscription-admin patched

wait $ kubectl get manifestwork -n cluster1 default-shop -o jsonpath='{.spec.workload.manifests[1].metadata.annotations.apps\.open-cluster-management\.io/cluster-admin}{"\n"}'
true

wait $ drover app refresh shop >/dev/null && kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap -n front web -o name
configmap/web

# Git servers come by the Service.
let POD $ kubectl get pods -n open-cluster-management -l app=multicluster-operators-hub-subscription -o jsonpath='{.items[0].status.podIP}'

$ kubectl annotate channel shop apps.open-cluster-management.io/webhook-enabled=true
channel.apps.open-cluster-management.io/shop annotated

let SHOP $ kubectl get channel shop -o jsonpath='{.spec.pathname}'

wait $ curl --silent --insecure --output /dev/null --write-out '%{http_code}\n' -H 'X-Github-Event: push' -H 'Content-Type: application/json' -d "{\"repository\":{\"clone_url\":\"$SHOP\",\"html_url\":\"$SHOP\",\"full_name\":\"a/shop\"}}" https://$POD:8443/webhook && kubectl get appsub shop -o jsonpath='{.metadata.annotations.apps\.open-cluster-management\.io/webhook-event-count}' | wc -c
200
1

# A namespace has one Channel that is no Git repository.
$ drover create channel charts --helm https://charts.example.com
Channel 'charts' has been created in 'default' namespace

wait $ drover create channel more --helm https://charts.example.com 2>&1 | grep -o 'the namespace default already contains a channel: charts'
the namespace default already contains a channel: charts

$ drover uninstall hub-addon --names application-manager
error: there are still addons for application-manager enabled on some clusters, ...
exit 1

$ kubectl delete appsub shop -o name
subscription.apps.open-cluster-management.io/shop

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap -A -o name | grep -c web || true
0

$ drover addon disable --names application-manager --clusters cluster1
Undeploying application-manager add-on in managed cluster: cluster1.

wait $ kubectl get -n cluster1 managedclusteraddons -o name | wc -l
0

$ drover uninstall hub-addon --names application-manager
Uninstalling built-in application-manager add-on from the Hub cluster...
deployment.apps/multicluster-operators-subscription deleted
...
serviceaccount/multicluster-operators-subscription deleted
...

# The kinds stay.
$ kubectl get crds -o name | grep -c apps.open-cluster-management.io
6

stop up
