# What a placement would choose is a page of the hub, for those who may see placements.
# Embedded only: a page of `drover up`; on a real Kubernetes `drover placement debug` serves it beside the API.

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

$ drover create placement everything
Placement 'everything' has been created in 'default' namespace

wait $ kubectl get --raw /debug/placements/default/everything
...cluster1...

$ kubectl get --raw /debug/placements/default/everything --as jane 2>&1
...Forbidden...
exit 1

stop up
