# Embedded only: pods are processes of this machine.
#
# Clusters join a hub without a join command: one that Cluster API has made, and one whose kubeconfig somebody has handed over.
# Cluster API is only its kind here, and comes when the hub runs already.

file cluster-api.yaml
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: clusters.cluster.x-k8s.io}
    spec:
      group: cluster.x-k8s.io
      scope: Namespaced
      names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
      versions:
        - name: v1beta2
          served: true
          storage: true
          schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}

file cluster.yaml
    apiVersion: cluster.x-k8s.io/v1beta2
    kind: Cluster
    metadata: {name: edge, namespace: edge}
    status: {phase: Provisioning}

file edge.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: edge}
    spec: {hubAcceptsClient: true}

file far.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: far}
    spec: {hubAcceptsClient: true}

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig

start three $ drover kube up --data-dir three --write-kubeconfig far.kubeconfig

wait log one
kube ready ...
...
Try:
...

wait log two
kube ready ...
...
Try:
...

wait log three
kube ready ...
...
Try:
...

set KUBECONFIG=hub.kubeconfig

set DROVER_LOG=info

start hub $ drover hub --no-examples --feature-gates ClusterImporter=true,ManagedClusterAutoApproval=true

wait log hub
...
...hub ready...

$ kubectl apply -f edge.yaml
managedcluster.cluster.open-cluster-management.io/edge created

# Cluster API comes, and begins to make a cluster.
$ kubectl apply -f cluster-api.yaml
customresourcedefinition.apiextensions.k8s.io/clusters.cluster.x-k8s.io created

wait $ kubectl get namespace edge -o name
namespace/edge

wait $ kubectl apply -f cluster.yaml
cluster.cluster.x-k8s.io/edge created

wait $ kubectl get managedcluster edge -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterImportSucceeded")].reason}{"\n"}'
KubeConfigNotFound

# It is there.
$ kubectl patch clusters.cluster.x-k8s.io -n edge edge --type merge -p '{"status":{"phase":"Provisioned"}}'
cluster.cluster.x-k8s.io/edge patched

wait $ kubectl get managedcluster edge -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterImportSucceeded")].message}{"\n"}'
Secret edge/edge-kubeconfig is not there

$ kubectl create secret generic -n edge edge-kubeconfig --from-file=value=edge.kubeconfig && kubectl label secret -n edge edge-kubeconfig cluster.x-k8s.io/cluster-name=edge
secret/edge-kubeconfig created
secret/edge-kubeconfig labeled

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterImportSucceeded --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
managedcluster.cluster.open-cluster-management.io/edge condition met

$ kubectl get managedcluster edge
NAME   HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
edge   true                                  True     True        <age>

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl --kubeconfig edge.kubeconfig get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

$ kubectl --kubeconfig edge.kubeconfig get klusterlet klusterlet -o jsonpath='{.spec.clusterName}{"\n"}'
edge

# The same with a kubeconfig that is used once. The first one leads nowhere.
$ kubectl create namespace far
namespace/far created

$ sed 's/127.0.0.1:[0-9]*/127.0.0.1:1/' far.kubeconfig > wrong.kubeconfig && kubectl create secret generic -n far auto-import-secret --from-file=kubeconfig=wrong.kubeconfig
secret/auto-import-secret created

$ kubectl apply -f far.yaml
managedcluster.cluster.open-cluster-management.io/far created

wait $ kubectl get managedcluster far -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterImportSucceeded")].message}{"\n"}'
https://127.0.0.1:1 does not answer...

$ kubectl create secret generic -n far auto-import-secret --from-file=kubeconfig=far.kubeconfig --dry-run=client -o yaml | kubectl replace -f - && kubectl annotate secret -n far auto-import-secret open-cluster-management.io/delete-after-import=true
secret/auto-import-secret replaced
secret/auto-import-secret annotated

$ kubectl wait managedcluster/far --for=condition=ManagedClusterConditionAvailable --timeout=120s
managedcluster.cluster.open-cluster-management.io/far condition met

$ kubectl get managedcluster far -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterImportSucceeded")].reason}{"\n"}'
ImportSucceed

stop hub

stop three

stop two

stop one
