# The examples with their managers as pods on the hub, by the manifests that come with them: what these allow is all they need.
# Embedded only: the managers and the agent are pods, and there is no kubelet elsewhere.

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ for name in helloworld helloworldhelm helloworldhosted; do kubectl apply -k $STORY_SOURCES/addons/$name/deploy; done
...
deployment.apps/helloworldhosted-controller created
...

wait $ kubectl get deployments -n open-cluster-management
NAME                          READY   UP-TO-DATE   AVAILABLE   AGE
helloworld-controller         1/1     1            1           <age>
helloworldhelm-controller     1/1     1            1           <age>
helloworldhosted-controller   1/1     1            1           <age>

$ drover addon enable --names helloworldhelm --clusters cluster1
Deploying helloworldhelm add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddon/helloworldhelm --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworldhelm condition met

$ kubectl create configmap -n cluster1 hello --from-literal=value=pod
configmap/hello created

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon hello -o jsonpath='{.data.value}{"\n"}'
pod

# They may say what happened, and look for the authorities of their signers beside themselves.
$ for name in helloworld helloworldhelm helloworldhosted; do kubectl auth can-i create events.events.k8s.io -n cluster1 --as=system:serviceaccount:open-cluster-management:$name-controller; done
yes
yes
yes

$ kubectl get deployments -n open-cluster-management -o jsonpath='{range .items[*].spec.template.spec.containers[*].env[*]}{.name}={.valueFrom.fieldRef.fieldPath}{"\n"}{end}'
POD_NAMESPACE=metadata.namespace
POD_NAMESPACE=metadata.namespace
POD_NAMESPACE=metadata.namespace

$ drover addon disable --names helloworldhelm --clusters cluster1
Undeploying helloworldhelm add-on in managed cluster: cluster1.

wait $ kubectl get managedclusteraddons,manifestworks -A -o name

$ kubectl $CLUSTER get configmaps -n open-cluster-management-agent-addon -l synced-from-hub -o name

stop up
