# What an add-on does last: a job that runs when it is deleted, and one that never gets done and has a deadline. The add-on is
# an AddOnTemplate; the image of its job is none that the cluster can run.

file addon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnTemplate
    metadata:
      name: hooked
    spec:
      addonName: hooked
      agentSpec:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata: {name: goes, namespace: default}
              data: {cluster: "{{CLUSTER_NAME}}"}
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: stays
                namespace: default
                annotations: {addon.open-cluster-management.io/deletion-orphan: ""}
            - apiVersion: batch/v1
              kind: Job
              metadata:
                name: last
                namespace: default
                annotations:
                  addon.open-cluster-management.io/addon-pre-delete: ""
                  addon.open-cluster-management.io/addon-pre-delete-deadline: 3s
              spec:
                template:
                  spec:
                    restartPolicy: Never
                    containers: [{name: last, image: "registry.example.com/nobody-has-this:1"}]
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: hooked
    spec:
      supportedConfigs:
        - group: addon.open-cluster-management.io
          resource: addontemplates
          defaultConfig: {name: hooked}
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ManagedClusterAddOn
    metadata: {name: hooked, namespace: cluster1}
    spec: {}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f addon.yaml
addontemplate.addon.open-cluster-management.io/hooked created
clustermanagementaddon.addon.open-cluster-management.io/hooked created
managedclusteraddon.addon.open-cluster-management.io/hooked created

$ kubectl wait -n cluster1 managedclusteraddon/hooked --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/hooked condition met

# The job is not run, and holds the add-on.
$ kubectl $CLUSTER get jobs -n default -o name

$ kubectl -n cluster1 get managedclusteraddon hooked -o jsonpath='{.metadata.finalizers}'
["addon.open-cluster-management.io/addon-pre-delete"]

# It runs when the add-on is deleted, while everything else is still there.
$ kubectl -n cluster1 delete managedclusteraddon hooked --wait=false
managedclusteraddon.addon.open-cluster-management.io "hooked" deleted...

wait $ kubectl $CLUSTER get jobs -n default -o name
job.batch/last

$ kubectl -n cluster1 get managedclusteraddon hooked -o jsonpath='{.status.conditions[?(@.type=="HookManifestCompleted")].message}'
hook manifestWork addon-hooked-pre-delete is not completed.

$ kubectl $CLUSTER get configmaps -n default goes -o jsonpath='{.data.cluster}'
cluster1

# It does not get done. After its deadline the add-on goes all the same, and says so.
wait $ kubectl -n cluster1 get managedclusteraddons,manifestworks -o name

$ kubectl -n cluster1 get events.events.k8s.io -o jsonpath='{range .items[?(@.reason=="HookManifestDeadlinePassed")]}{.type} {.regarding.name}: {.note}{end}'
Warning hooked: hook manifestWork addon-hooked-pre-delete is not completed within its deadline of 3s.

# What was its own has gone, what was to stay has stayed.
wait $ kubectl $CLUSTER get jobs,configmaps -n default -o name
configmap/kube-root-ca.crt
configmap/stays

stop up
