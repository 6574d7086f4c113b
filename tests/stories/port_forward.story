# A port of a pod of an embedded cluster is spoken to from outside, over WebSocket and over SPDY. Who may only look at
# pods may not.
# Embedded only: on a real Kubernetes this comes from a kubelet, and there is none.

start up $ drover up --clusters 1 --node-image-map 'python=*'

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/cluster1.kubeconfig

file web.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: python:3
        command: [sh, -c, 'cd $HOME && echo hello > index.html && exec python3 -m http.server --bind $POD_ADDRESS 8080']
        readinessProbe:
          periodSeconds: 1
          httpGet:
            port: 8080

$ kubectl apply -f web.yaml
pod/web created

$ kubectl wait pod/web --for=condition=Ready --timeout=30s
pod/web condition met

start forward $ kubectl port-forward pod/web 23451:8080

wait $ curl -s --max-time 10 http://127.0.0.1:23451/
hello

# Many at once.
$ for i in 1 2 3 4 5 6 7 8 9 10; do curl -s --max-time 10 http://127.0.0.1:23451/ & done | sort | uniq -c | sed 's/^ *//'
10 hello

kill forward

# Where nobody listens, the reason comes, and ends what kubectl has.
$ (curl -s --retry 5 --retry-connrefused --max-time 20 http://127.0.0.1:23452/ &); kubectl port-forward --address 127.0.0.1 pod/web 23452:81 2>&1
Forwarding from 127.0.0.1:23452 -> 81
Handling connection for 23452
...error forwarding port 81 to pod web: dial tcp 127...:81: Connection refused (os error 111)...
error: lost connection to pod
exit 1

start older $ env KUBECTL_PORT_FORWARD_WEBSOCKETS=false kubectl port-forward pod/web 23453:8080

wait $ curl -s --max-time 10 http://127.0.0.1:23453/
hello

kill older

# Who may only look may not.
$ kubectl create clusterrolebinding mary --clusterrole=view --user=mary
clusterrolebinding.rbac.authorization.k8s.io/mary created

$ kubectl create role look --verb=get --resource=pods/exec,pods/portforward
role.rbac.authorization.k8s.io/look created

$ kubectl create rolebinding look --role=look --user=mary
rolebinding.rbac.authorization.k8s.io/look created

$ kubectl --as mary exec web -- true 2>&1
Error from server (Forbidden): pods "web" is forbidden: User "mary" cannot create resource "pods/exec" in API group "" in the namespace "default"
exit 1

$ kubectl --as mary port-forward pod/web 23454:8080 2>&1
error: error upgrading connection: pods "web" is forbidden: User "mary" cannot create resource "pods/portforward" in API group "" in the namespace "default"
exit 1

stop up
