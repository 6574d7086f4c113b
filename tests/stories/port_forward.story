# A port of a pod of an embedded cluster is spoken to from outside, over WebSocket and over SPDY. Who may only look at
# pods may not.
# Embedded only: on a real Kubernetes this comes from a kubelet, and there is none.

