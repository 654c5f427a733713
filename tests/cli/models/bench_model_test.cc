// tune-cli bench and report of model files. A module stands for ONNX Runtime, which need not be installed.
#include <gmock/gmock.h>

#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::HasSubstr;
using testing::Not;

// Computes y = x @ w + s as the model of the test does, and so much besides.
std::string peer(const std::string& besides) {
  return R"py(import numpy as np
__version__ = "9.9"
class SessionOptions: pass
class Port:
    def __init__(self, name, kind, shape): self.name, self.type, self.shape = name, kind, shape
class InferenceSession:
    def __init__(self, path, options=None, providers=()):
        assert open(path, "rb").read()
    def get_inputs(self): return [Port("x", "tensor(float)", [2, 3]), Port("s", "tensor(float)", [])]
    def run(self, names, given):
        assert given["s"] == 5 and given["s"].shape == ()
        return [given["x"] @ np.array([[1, 0], [0, 1], [1, 1]], "float32") + 5 + )py" +
         besides + "]\n";
}

class BenchModel : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    OnnxFile file;
    file.input("x", {2, 3}).input("s", {}).floats("w", {3, 2}, {1, 0, 0, 1, 1, 1});
    file.node("MatMul", {"x", "w"}, {"a"}).node("Add", {"a", "s"}, {"y"}).output("y");
    write("m.onnx", file.bytes());
  }
  void compile() {
    ASSERT_EQ(
        run("compile m.onnx -o m.tw --const s=5 --db k.db --threads 1 --trials 0 --quiet").code, 0);
  }
  // An environment of peers whose Python finds the module, and numpy where Debian installs it.
  void install(const std::string& module, const std::string& text) {
    fs::create_directories(dir_ / "peers/models/bin");
    fs::create_directories(dir_ / "modules");
    write("modules/" + module + ".py", text);
    write("peers/models/bin/python",
          "#!/bin/sh\nexport PYTHONPATH='" + (dir_ / "modules").string() +
              "'\nfor p in python3 /usr/bin/python3; do\n"
              "  $p -c 'import numpy' 2>/dev/null && exec $p \"$@\"\ndone\nexit 1\n");
    fs::permissions(dir_ / "peers/models/bin/python", fs::perms::owner_all);
  }
  Ran bench(const std::string& options) {
    return run("bench m.tw --onnx m.onnx --threads 1 --time 0.1s " + options,
               "TILEWRIGHT_PEERS_PREFIX='" + (dir_ / "peers").string() + "'");
  }
};

TEST_F(BenchModel, RunsThePeersThatAreInstalled) {
  compile();
  install("onnxruntime", peer("0"));
  Ran ran = bench("--const s=5");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("onnxruntime 9.9"));
  EXPECT_THAT(ran.out, HasSubstr("ratio to the fastest peer"));
  EXPECT_THAT(ran.out,
              HasSubstr("not installed: openvino iree tvm ncnn; 'scripts/peer_models openvino "));
  ran = bench("--const s=5 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json row = ran.json();
  EXPECT_LT(row["difference"], 1e-6);
  EXPECT_GE(row["rounds"], 7);
  EXPECT_NEAR(row["ratio"].get<double>(),
              row["peers"]["onnxruntime"]["seconds"].get<double>() / row["seconds"].get<double>(),
              1e-9);
  EXPECT_EQ(row["absent"], Json({"openvino", "iree", "tvm", "ncnn"}));
}

TEST_F(BenchModel, TellsTheDifferenceOfOutputs) {
  compile();
  install("onnxruntime", peer("0.5"));
  const Ran ran = bench("--const s=5 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_GT(ran.json()["difference"], 0.01);
}

TEST_F(BenchModel, TellsTheDifferenceOfEachPeer) {
  compile();
  install("onnxruntime", peer("0"));
  install("openvino", R"py(import numpy as np
__version__ = "8.8-build"
class Port:
    def __init__(self, name): self.names = [name]
class Tensor:
    def __init__(self, data, shared_memory=False): self.data = data
class Core:
    inputs = [Port("x"), Port("s")]
    def read_model(self, path): return self
    def reshape(self, shapes): pass
    def compile_model(self, model, device, options): return self
    def create_infer_request(self): return self
    def set_tensor(self, name, tensor): pass
    def infer(self): self.output_tensors = [Tensor(np.full((2, 2), 1000.0))]
)py");
  const Json peers = bench("--const s=5 --json").json()["peers"];
  EXPECT_LT(peers["onnxruntime"]["difference"], 1e-6);
  EXPECT_NEAR(peers["openvino"]["difference"].get<double>(), 1, 0.02);
  EXPECT_EQ(peers["openvino"]["version"], "8.8");
}

TEST_F(BenchModel, NamesAPeerThatCannotRunTheModel) {
  compile();
  install("onnxruntime", peer("0"));
  install("openvino",
          "__version__ = '1'\nclass Core:\n    def read_model(self, path):\n"
          "        raise RuntimeError('no such operator')\n");
  const Ran ran = bench("--const s=5");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("openvino cannot run the model: no such operator"));
  EXPECT_THAT(ran.out, Not(HasSubstr("not installed: openvino")));
}

TEST_F(BenchModel, NamesAPeerWhoseOutputsDoNotCompare) {
  compile();
  install("onnxruntime", peer("float('nan')"));
  EXPECT_THAT(bench("--const s=5 --json").json()["failed"]["onnxruntime"],
              HasSubstr("have no numbers at different places"));
  install("onnxruntime", peer("np.zeros((3, 2, 2))"));
  EXPECT_THAT(bench("--const s=5 --json").json()["failed"]["onnxruntime"],
              HasSubstr("shape [3, 2, 2], the model file's [2, 2]"));
}

TEST_F(BenchModel, RefusesWithTheNextCommand) {
  Ran ran = run("bench m.onnx");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("'tune-cli compile m.onnx -o m.tw', then 'tune-cli bench m.tw "
                                 "--onnx m.onnx'"));
  EXPECT_THAT(bench("").err, HasSubstr("there is no model file 'm.tw'"));
  compile();
  ran = run("bench m.tw");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--onnx: expected the ONNX file that 'm.tw' was made of"));
  EXPECT_THAT(run("bench m.tw --onnx n.onnx").err, HasSubstr("there is no file 'n.onnx'"));
  EXPECT_THAT(run("bench m.tw --onnx m.onnx --rounds 3").err, HasSubstr("--rounds"));
  EXPECT_THAT(run("bench relu:m=4,n=4 --onnx m.onnx").err, HasSubstr("--onnx"));
  install("unrelated", "");
  ran = bench("");
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("scripts/peer_models installs the peers"));
  install("onnxruntime", peer("0"));
  ran = bench("--const other=5");
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("m.onnx has no input other; it has x, s"));
}

TEST_F(BenchModel, ReportsItsWorkloads) {
  compile();
  const Ran ran = run("report m.tw --db k.db -o r.html --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = ran.json();
  ASSERT_EQ(said["results"].size(), 1u);
  EXPECT_THAT(said["results"][0]["spec"].get<std::string>(), HasSubstr("r0=3"));
}

}  // namespace
}  // namespace tilewright::cli
