"""The service behind Ray Serve, where Ray is installed."""

from collections.abc import Iterator

import pytest

from didact.client import Client, ServiceError
from didact.errors import ParameterError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")
PORT = 8411


@pytest.fixture(scope="module")
def served() -> Iterator[Client]:
    """Two replicas on a local Ray."""
    from ray import serve

    from deploy.ray_serve import build

    ray.init(num_cpus=3, include_dashboard=False)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(build({"replicas": "2", "cpus": "0.5"}))
    client = Client(f"http://127.0.0.1:{PORT}", retries=60)
    yield client
    serve.shutdown()
    ray.shutdown()


def test_the_same_application_answers(served: Client) -> None:
    for _ in range(20):  # both replicas
        assert served.predict(["A warm film."])[0].label == "positive"
    assert len(served.explain(["A warm film.", "A dull plot."], method="occlusion")) == 2
    assert next(iter(served.stream(["A warm film."], method="occlusion"))).name == "queued"
    with pytest.raises(ServiceError, match="did you mean lime"):
        served.explain(["a film"], method="limes")
    with pytest.raises(ServiceError, match="keeps no jobs"):
        served.submit(["a film"])


def test_wrong_arguments_are_refused() -> None:
    from deploy.ray_serve import build

    for wrong in ({"replica": "2"}, {"replicas": "0"}, {"replicas": "many"}, {"gpus": "-1"}):
        with pytest.raises(ParameterError):
            build(wrong)
