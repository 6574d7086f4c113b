# An upgrade to an image that does not start: what ran before goes on, conditions and `why` say what is wrong, and the next one
# succeeds.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {name: idle, namespace: default}
            spec:
              replicas: 0
              selector: {matchLabels: {app: idle}}
              template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: x}]}}

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig

wait log two
kube ready ...
...
Try:
...

set HUB=--kubeconfig=hub.kubeconfig

set EDGE=--kubeconfig=edge.kubeconfig

$ drover $HUB init --wait --output-join-command-file join.sh
...
The multicluster hub control plane has been initialized successfully!
...

$ KUBECONFIG=edge.kubeconfig sh join.sh edge
...

$ drover $HUB accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

let IMAGE $ kubectl $HUB get clustermanager cluster-manager -o jsonpath='{.spec.registrationImagePullSpec}'

# The hub.
$ kubectl $HUB patch clustermanager cluster-manager --type=merge -p '{"spec":{"registrationImagePullSpec":"example.com/nothing:v9"}}'
clustermanager.operator.open-cluster-management.io/cluster-manager patched

wait $ kubectl $HUB get clustermanager cluster-manager -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}{"\n"}{end}' | grep -e Progressing -e Registration | sort
HubRegistrationDegraded=...
Progressing=True ClusterManagerDeploymentRolling

wait $ drover $HUB why clustermanager/cluster-manager
...example.com/nothing:v9...
...

# Its webhooks and controllers still answer.
$ kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl $HUB wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl $HUB patch clustermanager cluster-manager --type=merge -p '{"spec":{"registrationImagePullSpec":"'$IMAGE'"}}'
clustermanager.operator.open-cluster-management.io/cluster-manager patched

$ kubectl $HUB wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=60s
clustermanager.operator.open-cluster-management.io/cluster-manager condition met

wait $ kubectl $HUB get pods -n open-cluster-management-hub --no-headers | wc -l
1

# The agent.
$ kubectl $EDGE patch klusterlet klusterlet --type=merge -p '{"spec":{"registrationImagePullSpec":"example.com/nothing:v9","workImagePullSpec":"example.com/nothing:v9"}}'
klusterlet.operator.open-cluster-management.io/klusterlet patched

wait $ drover $EDGE why klusterlet/klusterlet
...example.com/nothing:v9...
...

$ sed -i 's/color: red/color: green/' work.yaml && kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello configured

wait $ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
green

$ kubectl $EDGE patch klusterlet klusterlet --type=merge -p '{"spec":{"registrationImagePullSpec":"'$IMAGE'","workImagePullSpec":"'$IMAGE'"}}'
klusterlet.operator.open-cluster-management.io/klusterlet patched

wait $ kubectl $EDGE get pods -n open-cluster-management-agent --no-headers | grep -c Running
1

$ kubectl $EDGE wait klusterlet/klusterlet --for=condition=Available --timeout=60s
klusterlet.operator.open-cluster-management.io/klusterlet condition met

stop two

stop one
