# The example of the founding documents: a ManifestWork brings a ServiceAccount and a Deployment to cluster1.

file example-manifestwork.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata:
      namespace: cluster1
      name: example-manifestwork
    spec:
      workload:
        manifests:
          - apiVersion: v1
            kind: ServiceAccount
            metadata:
              namespace: default
              name: my-sa
          - apiVersion: apps/v1
            kind: Deployment
            metadata:
              namespace: default
              name: nginx-deployment
              labels:
                app: nginx
            spec:
              replicas: 3
              selector:
                matchLabels:
                  app: nginx
              template:
                metadata:
                  labels:
                    app: nginx
                spec:
                  serviceAccountName: my-sa
                  containers:
                    - name: nginx
                      image: nginx:1.14.2
                      ports:
                        - containerPort: 80

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f example-manifestwork.yaml
manifestwork.work.open-cluster-management.io/example-manifestwork created

$ kubectl get manifestwork -A
NAMESPACE   NAME                   AGE
cluster1    example-manifestwork   <age>

$ kubectl wait -n cluster1 manifestwork/example-manifestwork --for=condition=Applied --timeout=30s
manifestwork.work.open-cluster-management.io/example-manifestwork condition met

$ kubectl wait -n cluster1 manifestwork/example-manifestwork --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/example-manifestwork condition met

# What each manifest became.
$ kubectl get -n cluster1 manifestwork example-manifestwork -o jsonpath='{range .status.resourceStatus.manifests[*]}{.resourceMeta.ordinal}/{.resourceMeta.group}/{.resourceMeta.version}/{.resourceMeta.kind}/{.resourceMeta.resource}/{.resourceMeta.namespace}/{.resourceMeta.name}{range .conditions[*]} {.type}={.status}/{.reason}/{.message}{end}{"\n"}{end}'
0//v1/ServiceAccount/serviceaccounts/default/my-sa Applied=True/AppliedManifestComplete/Apply manifest complete Available=True/ResourceAvailable/Resource is available...
1/apps/v1/Deployment/deployments/default/nginx-deployment Applied=True/AppliedManifestComplete/Apply manifest complete Available=True/ResourceAvailable/Resource is available...

# On the cluster. Its node has no command for the image, so that nothing runs, and nothing says that it does.
$ kubectl --kubeconfig .drover/cluster1.kubeconfig get deployment
NAME               READY   UP-TO-DATE   AVAILABLE   AGE
nginx-deployment   0/3     3            0           <age>

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get sa my-sa
NAME    AGE
my-sa   <age>

# The other cluster has none of it.
$ kubectl --kubeconfig .drover/cluster2.kubeconfig get deployment 2>&1
No resources found in default namespace.

$ kubectl delete -f example-manifestwork.yaml
manifestwork.work.open-cluster-management.io "example-manifestwork" deleted...

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get deployment,sa -n default
NAME   AGE
serviceaccount/default   <age>

stop up
