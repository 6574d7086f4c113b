# The first work of the founding documents: a directory of manifests goes to a cluster, is changed, and goes away.

file site/account.yaml
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      namespace: default
      name: my-sa

file site/nginx.yaml
    apiVersion: apps/v1
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

$ drover create work my-first-work -f site --clusters cluster1
create work my-first-work in cluster cluster1

$ kubectl wait -n cluster1 manifestwork/my-first-work --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/my-first-work condition met

$ kubectl get manifestwork -A
NAMESPACE   NAME            AGE
cluster1    my-first-work   <age>

$ drover get works my-first-work --cluster cluster1
...
KIND             NAMESPACE   NAME               ...
ServiceAccount   default     my-sa              ...
Deployment       default     nginx-deployment   ...

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get deployment nginx-deployment -o jsonpath='{.spec.replicas} {.metadata.uid}{"\n"}'
3 ...

# Given again it is refused, and nothing changes; asked to, it brings what the directory holds now.
file site/nginx.yaml
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      namespace: default
      name: nginx-deployment
    spec:
      replicas: 2
      selector:
        matchLabels:
          app: nginx
      template:
        metadata:
          labels:
            app: nginx
        spec:
          containers:
            - name: nginx
              image: nginx:1.14.2

$ drover create work my-first-work -f site --clusters cluster1 2>&1
error: work my-first-work in cluster cluster1 already exists; add --overwrite to replace its manifests
exit 1

$ drover create work my-first-work -f site --clusters cluster1 --overwrite
...my-first-work in cluster cluster1

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get deployment nginx-deployment -o jsonpath='{.spec.replicas}{"\n"}'
2

$ kubectl delete manifestwork my-first-work -n cluster1
manifestwork.work.open-cluster-management.io "my-first-work" deleted...

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get deployment,sa -n default --no-headers
serviceaccount/default   <age>

stop up
