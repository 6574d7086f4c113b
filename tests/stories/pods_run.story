# An embedded cluster runs pods as processes: an image that is mapped to a command runs, one that is not says what to do.
# Embedded only: the logs of pods come from a kubelet, and there is none.

start up $ drover up --clusters 1 --node-image-map 'busybox=*'

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/cluster1.kubeconfig

$ kubectl get nodes --no-headers
cluster1   Ready   <none>   <age>   ...

$ kubectl create deployment hello --image=busybox:1.36 -- sh -c 'echo hello from $HOSTNAME; exec sleep 1000'
deployment.apps/hello created

$ kubectl wait deployment/hello --for=condition=Available --timeout=30s
deployment.apps/hello condition met

$ kubectl get deployment hello
NAME    READY   UP-TO-DATE   AVAILABLE   AGE
hello   1/1     1            1           <age>

$ kubectl logs deploy/hello
hello from hello-...

$ kubectl scale deployment/hello --replicas=2
deployment.apps/hello scaled

wait $ kubectl get deployment hello --no-headers
hello   2/2   2     2     <age>

$ kubectl delete deployment hello
deployment.apps "hello" deleted...

wait $ kubectl get pods 2>&1
No resources found in default namespace.

# Nobody maps this one.
$ kubectl create deployment web --image=nginx:1.14.2
deployment.apps/web created

wait $ kubectl get pods --no-headers
web-...   0/1   ErrImagePull   0     <age>

$ kubectl get pods -o jsonpath='{.items[0].status.containerStatuses[0].state.waiting.message}'
no command stands for image "nginx:1.14.2" on this node, ...; name one with --node-image-map 'nginx:1.14.2=COMMAND'

$ kubectl logs deploy/web 2>&1
Error from server (BadRequest): container "nginx" in pod "web-..." is waiting to start: ErrImagePull
exit 1

# The image of the examples is there for them alone: it is no way to the rest of the program, or to a shell.
$ kubectl delete deployment web
deployment.apps "web" deleted...

wait $ kubectl get pods 2>&1
No resources found in default namespace.

$ kubectl run own --image=quay.io/open-cluster-management/addon-examples -- version
pod/own created

wait $ kubectl get pods --no-headers
own   0/1   ErrImagePull   0     <age>

$ kubectl get pods -o jsonpath='{.items[0].status.containerStatuses[0].state.waiting.message}'
the image stands for helloworld, helloworldhelm, helloworldhosted only, and the container asks for "version" (image "quay.io/open-cluster-management/addon-examples"); name a command of yours with --node-image-map ...

stop up
