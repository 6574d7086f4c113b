# Upstream's switches of a hub: a cluster that has a token is let in without a human, and who writes a work has to be allowed
# what the agent may do with it.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}}

# What is always so may be said, and nothing else.
$ drover up --clusters 0 --feature-gates CloudEventsDrivers=true 2>&1
...CloudEventsDrivers is always false: there is nothing here that it turns on; leave it out
...
exit 2

start up $ drover up --clusters 0 --feature-gates ManagedClusterAutoApproval=true,NilExecutorValidating=true,AddonManagement=true,CloudEventsDrivers=false

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

start edge $ drover join --embedded --cluster-name edge --hub-kubeconfig .drover/hub.kubeconfig

wait $ kubectl get managedcluster edge
NAME   HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
edge   true           https://<address>      True     True        <age>

# Mary may write works, and no agent may do for her what it can.
$ kubectl create role writer -n edge --verb=create,get,delete --resource=manifestworks.work.open-cluster-management.io && kubectl create rolebinding writer -n edge --role=writer --user=mary
role.rbac.authorization.k8s.io/writer created
rolebinding.rbac.authorization.k8s.io/writer created

$ kubectl create --as mary -f work.yaml 2>&1
...user mary cannot manipulate the Manifestwork with executor /klusterlet-work-sa in namespace edge
exit 1

$ kubectl create role agent -n edge --verb=execute-as --resource=manifestworks.work.open-cluster-management.io --resource-name=system:serviceaccount::klusterlet-work-sa && kubectl create rolebinding agent -n edge --role=agent --user=mary
...

$ kubectl create --as mary -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

stop edge

stop up
