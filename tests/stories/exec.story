# People reach into the pods of an embedded cluster: a command beside a container, its input and its exit code, files in
# both directions, and a container that is joined; over WebSocket, and over SPDY as older clients speak it.
# Embedded only: on a real Kubernetes these come from a kubelet, and there is none.

start up $ drover up --clusters 1 --node-image-map 'busybox=*'

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/cluster1.kubeconfig

file pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: box
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      volumes:
      - name: data
        emptyDir: {}
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "while read line; do echo said $line; done; echo bye"]
        stdin: true
        stdinOnce: true
        env:
        - name: COLOR
          value: red
        volumeMounts:
        - name: data
          mountPath: /data

$ kubectl apply -f pod.yaml
pod/box created

$ kubectl wait pod/box --for=condition=Ready --timeout=30s
pod/box condition met

# With its variables, over WebSocket and over SPDY.
$ kubectl exec box -- sh -c 'echo $COLOR; echo oh >&2; exit 3' 2>&1 | sort
command terminated with exit code 3
oh
red

$ KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec box -- sh -c 'echo $COLOR; echo oh >&2; exit 3' 2>&1 | sort
command terminated with exit code 3
oh
red

# What is piped in arrives whole, and ends.
$ head -c 5000000 /dev/zero | kubectl exec -i box -- sh -c 'wc -c'
5000000

$ head -c 5000000 /dev/zero | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -i box -- sh -c 'wc -c'
5000000

$ kubectl exec box -- no-such-program 2>&1
error: Internal error occurred: error executing command in container: exec: "no-such-program": No such file or directory (os error 2)
exit 1

$ kubectl exec box -c other -- true 2>&1
Error from server (BadRequest): container other is not valid for pod box
exit 1

# Files in both directions, by the paths that the container knows.
$ echo one > one

$ kubectl cp one box:/data/one

$ kubectl exec box -- cat /data/one
one

# What tar remarks about leading slashes may come after kubectl has seen the end of the archive.
$ kubectl cp box:/data/one two > /dev/null

$ cat two
one

# Joined, it takes input until that ends, and shows its last word.
$ echo hello | kubectl attach -i box 2>&1
If you don't see a command prompt, try pressing enter.
said hello
bye

wait $ kubectl get pod box --no-headers
box   0/1   Completed   0     <age>

$ kubectl delete pod box
pod "box" deleted...

stop up
