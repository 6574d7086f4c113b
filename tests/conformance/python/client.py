"""What programs do with Kubernetes' client for Python, against the API server of KUBECONFIG.

Usage: client.py NAMESPACE GROUP. The namespace is there; a definition of the group is made and removed.
Each step prints a line; the first that is not as on a real API server ends the program with its traceback.
"""

import json
import sys
import tempfile
import threading

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

NAMESPACE, GROUP = sys.argv[1:]
SECONDS_MAX = 60


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def fails(code, reason, call, *args, **named):
    """The call fails with this code, and a Status that says this reason."""
    try:
        call(*args, **named)
    except ApiException as error:
        status = json.loads(error.body)
        equal((error.status, status["kind"], status["reason"]), (code, "Status", reason))
        return status
    raise AssertionError(f"{call.__name__} did not fail with {code} {reason}")


def objects():
    """Typed objects: made, read, changed in four ways, listed in pages, deleted."""
    core = client.CoreV1Api()
    meta = client.V1ObjectMeta(name="one", labels={"kind": "first"})
    made = core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta, data={"a": "b"}))
    equal((made.metadata.namespace, made.data), (NAMESPACE, {"a": "b"}))
    fails(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, client.V1ConfigMap(metadata=meta))
    fails(404, "NotFound", core.read_namespaced_config_map, "nobody", NAMESPACE)

    # A dictionary is sent as a merge, a list as a JSON patch.
    merged = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"c": "d"}, "metadata": {"labels": {"x": "y"}}})
    equal(merged.data, {"a": "b", "c": "d"})
    patched = core.patch_namespaced_config_map("one", NAMESPACE, [{"op": "remove", "path": "/data/a"}])
    equal(patched.data, {"c": "d"})
    stale = made
    stale.data = {"stale": "yes"}
    fails(409, "Conflict", core.replace_namespaced_config_map, "one", NAMESPACE, stale)
    patched.data = {"e": "f"}
    equal(core.replace_namespaced_config_map("one", NAMESPACE, patched).data, {"e": "f"})
    fails(422, "Invalid", core.patch_namespaced_config_map, "one", NAMESPACE, {"data": {"no key!": "x"}})

    for number in range(7):
        meta = client.V1ObjectMeta(name=f"page-{number}", labels={"kind": "page"})
        core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta))
    names, pages, rest = [], 0, None
    while pages == 0 or rest:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="kind=page", limit=3, _continue=rest)
        names += [it.metadata.name for it in page.items]
        pages, rest = pages + 1, page.metadata._continue
    equal(pages, 3)
    equal(names, [f"page-{number}" for number in range(7)])
    core.delete_namespaced_config_map("page-0", NAMESPACE, dry_run="All")
    core.read_namespaced_config_map("page-0", NAMESPACE)
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="kind=page")
    equal(core.list_namespaced_config_map(NAMESPACE, label_selector="kind=page").items, [])
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="secret"), string_data={"key": "value"})
    equal(core.create_namespaced_secret(NAMESPACE, secret).data, {"key": "dmFsdWU="})
    core.delete_namespaced_config_map("one", NAMESPACE, body=client.V1DeleteOptions(grace_period_seconds=0))


def deployments():
    """A Deployment with its defaults and its scale."""
    apps = client.AppsV1Api()
    labels = {"app": "web"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c1", image="img:1")]),
    )
    spec = client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template)
    web = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    made = apps.create_namespaced_deployment(NAMESPACE, web)
    equal((made.spec.strategy.type, made.spec.revision_history_limit), ("RollingUpdate", 10))
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    equal((scale.spec.replicas, scale.status.selector), (1, "app=web"))
    equal(apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 2}}).spec.replicas, 2)
    # Containers are merged by their names.
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c2", "image": "img:2"}]}}}}
    both = apps.patch_namespaced_deployment("web", NAMESPACE, change).spec.template.spec.containers
    equal(sorted(it.name for it in both), ["c1", "c2"])
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Background")
    fails(404, "NotFound", apps.read_namespaced_deployment, "web", NAMESPACE)


def watches():
    """A watch tells what happens, in its order, from a list on."""
    core = client.CoreV1Api()
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="watched")
    labels = {"watched": "yes"}

    def write():
        meta = client.V1ObjectMeta(name="seen", labels=labels)
        core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta, data={"n": "1"}))
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"n": "2"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        label_selector="watched",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=SECONDS_MAX,
    ):
        seen.append((event["type"], event["object"].data["n"]))
        if event["type"] == "DELETED":
            stream.stop()
    writer.join()
    equal(seen, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")])


def definitions():
    """A definition, and objects of it: as dictionaries, and by a client that learns the kinds from discovery."""
    extensions, custom = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    text = client.V1JSONSchemaProps(type="string")
    schema = client.V1JSONSchemaProps(
        type="object", properties={"spec": client.V1JSONSchemaProps(type="object", properties={"colour": text})}
    )
    version = client.V1CustomResourceDefinitionVersion(
        name="v1", served=True, storage=True, schema=client.V1CustomResourceValidation(open_apiv3_schema=schema)
    )
    names = client.V1CustomResourceDefinitionNames(plural="lamps", singular="lamp", kind="Lamp")
    spec = client.V1CustomResourceDefinitionSpec(group=GROUP, scope="Namespaced", names=names, versions=[version])
    name = f"lamps.{GROUP}"
    extensions.create_custom_resource_definition(
        client.V1CustomResourceDefinition(metadata=client.V1ObjectMeta(name=name), spec=spec)
    )
    try:
        stream = watch.Watch()
        for event in stream.stream(
            extensions.list_custom_resource_definition,
            field_selector=f"metadata.name={name}",
            timeout_seconds=SECONDS_MAX,
        ):
            conditions = {it.type: it.status for it in event["object"].status.conditions or []}
            if conditions.get("Established") == "True":
                stream.stop()
        served(custom)
        lamp = {"apiVersion": f"{GROUP}/v1", "kind": "Lamp", "metadata": {"name": "one"}, "spec": {"colour": "red"}}
        where = (GROUP, "v1", NAMESPACE, "lamps")
        equal(custom.create_namespaced_custom_object(*where, lamp)["spec"], {"colour": "red"})
        changed = custom.patch_namespaced_custom_object(*where, "one", {"spec": {"colour": "blue"}})
        equal((changed["spec"], changed["metadata"]["generation"]), ({"colour": "blue"}, 2))
        wrong = {"spec": {"colour": 1}}
        status = fails(422, "Invalid", custom.patch_namespaced_custom_object, *where, "one", wrong)
        equal(status["details"]["causes"][0]["field"], "spec.colour")
        discovered(lamp)
        custom.delete_namespaced_custom_object(*where, "one")
        equal(custom.list_namespaced_custom_object(*where)["items"], [])
    finally:
        extensions.delete_custom_resource_definition(name)


def served(custom):
    """A real server may answer 404 or 429 for a moment after a definition is established."""
    for _ in range(SECONDS_MAX * 20):
        try:
            custom.list_namespaced_custom_object(GROUP, "v1", NAMESPACE, "lamps")
            return
        except ApiException as error:
            if error.status not in (404, 429, 503):
                raise
            threading.Event().wait(0.05)
    raise AssertionError("the kind was never served")


def learnt(folder):
    """The kind by discovery, in which a real server tells of it a moment after it serves it."""
    for turn in range(SECONDS_MAX * 2):
        # A cache of its own, so that nothing is known from before.
        resources = dynamic.DynamicClient(client.ApiClient(), cache_file=f"{folder}/{turn}").resources
        try:
            return resources.get(api_version=f"{GROUP}/v1", kind="Lamp")
        except ResourceNotFoundError:
            threading.Event().wait(0.5)
    raise AssertionError("the kind was never in discovery")


def discovered(lamp):
    with tempfile.TemporaryDirectory() as folder:
        lamps = learnt(folder)
    equal((lamps.name, lamps.namespaced), ("lamps", True))
    applied = {**lamp, "metadata": {"name": "two"}}
    lamps.server_side_apply(body=applied, namespace=NAMESPACE, field_manager="first")
    applied["spec"] = {"colour": "green"}
    try:
        lamps.server_side_apply(body=applied, namespace=NAMESPACE, field_manager="second")
        raise AssertionError("two managers of one field are a conflict")
    except ConflictError:
        pass
    lamps.server_side_apply(body=applied, namespace=NAMESPACE, field_manager="second", force_conflicts=True)
    equal(lamps.get(name="two", namespace=NAMESPACE).spec.colour, "green")
    lamps.delete(name="two", namespace=NAMESPACE)
    try:
        lamps.get(name="two", namespace=NAMESPACE)
        raise AssertionError("it is gone")
    except NotFoundError:
        pass


def rights():
    """Who somebody is, what they may do, and a token of an account."""
    core, reviews = client.CoreV1Api(), client.AuthorizationV1Api()
    attributes = client.V1ResourceAttributes(verb="delete", resource="namespaces")
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    )
    equal(reviews.create_self_subject_access_review(review).status.allowed, True)
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    core.create_namespaced_service_account(NAMESPACE, account)
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    own = client.Configuration.get_default_copy()
    own.api_key, own.cert_file, own.key_file = {"authorization": f"Bearer {token}"}, None, None
    robot = client.CoreV1Api(client.ApiClient(own))
    status = fails(403, "Forbidden", robot.list_namespaced_config_map, NAMESPACE)
    who = f"system:serviceaccount:{NAMESPACE}:robot"
    equal(who in status["message"], True)


def manifests():
    """Objects as they stand in a file."""
    file = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-a-file"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}},
    ]
    api = client.ApiClient()
    utils.create_from_yaml(api, yaml_objects=file, namespace=NAMESPACE)
    service = client.CoreV1Api().read_namespaced_service("web", NAMESPACE)
    equal((service.spec.type, service.spec.ports[0].target_port), ("ClusterIP", 80))
    try:
        utils.create_from_yaml(api, yaml_objects=file[:1], namespace=NAMESPACE)
        raise AssertionError("it is there already")
    except utils.FailToCreateError as error:
        equal(error.api_exceptions[0].status, 409)


config.load_kube_config()
equal(client.VersionApi().get_code().major, "1")
for step in (objects, deployments, watches, definitions, rights, manifests):
    step()
    print(f"{step.__name__} ok")
