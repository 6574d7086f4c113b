"""An S3 server of other people: moto's, which looks at signatures as AWS does.

    python s3_server.py BUCKET

prints a line of JSON with its address and a key that may use the bucket, and then does what lines of JSON on its input say,
{"put": KEY, "body": TEXT} or {"delete": KEY}, and answers each with a line. It ends with its input.
"""

import json
import logging
import os
import sys

# Until there is a user with a key, nobody can sign: three calls are made before that. Read when moto is loaded.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

EVERYTHING_OF_S3 = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def main(bucket: str) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"

    def client(service: str, key: str, secret: str):
        return boto3.client(
            service, endpoint_url=address, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
        )

    iam = client("iam", "nobody", "nothing")
    iam.create_user(UserName="reader")
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    iam.put_user_policy(UserName="reader", PolicyName="s3", PolicyDocument=json.dumps(EVERYTHING_OF_S3))
    s3 = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
    s3.create_bucket(Bucket=bucket)
    print(json.dumps({"address": address, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        if "put" in wanted:
            s3.put_object(Bucket=bucket, Key=wanted["put"], Body=wanted["body"].encode())
        else:
            s3.delete_object(Bucket=bucket, Key=wanted["delete"])
        print("done", flush=True)
    server.stop()


main(sys.argv[1])
