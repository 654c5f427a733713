// Programs of files, with constants in files beside them.
#include "graph/program.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "graph/sizes.h"
#include "runtime/tensor/npy.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class GraphProgram : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / (std::string("tilewright_program_") + info->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    // One tensor of floats, one of packed codes.
    std::string header =
        R"({"w":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"layer.q":{"dtype":"U8","shape":[4],"data_offsets":[32,36]}})";
    while (header.size() % 8 != 0) header += ' ';
    const std::string data = *floats({1, 0, 0, 1, 2, 0, 0, 2}) + std::string("\x21\x43\x65\x07", 4);
    const uint64_t size = header.size();
    write("w.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + header + data);
  }
  void TearDown() override { fs::remove_all(dir_); }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(dir_ / name, std::ios::binary) << content;
  }
  Graph read(const std::string& text) {
    write("p.tg", text);
    return read_program((dir_ / "p.tg").string());
  }
  std::string mistake(const std::string& text) {
    try {
      read(text);
    } catch (const Error& e) {
      const std::string what = e.what(), path = (dir_ / "p.tg").string();
      EXPECT_TRUE(what.starts_with(dir_.string())) << what;
      return what;
    }
    return "";
  }

  fs::path dir_;
};

const std::string kReadProduct = R"("y" = "matmul:m=3,n=2,k=4" (A="x", B="w")
output "y"
)";

TEST_F(GraphProgram, ConstantsComeFromFiles) {
  const Graph graph = read(
      "# a product\ngraph \"p\"\ninput \"x\": f32[3, 4]\n"
      "const \"w\": f32[4, 2] = from \"w.safetensors\"\n" +
      kReadProduct);
  EXPECT_EQ(type_text(graph.values[graph.find("y")]), "f32[3, 2]") << "the spec says it";
  const Bytes y = interpret(graph, {{"x", floats({1, 2, 3, 4, 0, 0, 0, 0, 1, 1, 1, 1})}})[0];
  EXPECT_EQ(*y, *floats({7, 10, 0, 0, 3, 3}));
  EXPECT_THAT(to_string(graph), HasSubstr("const \"w\": f32[4, 2] = {1, 0, 0, 1, 2, 0, 0, 2}"));
}

TEST_F(GraphProgram, OtherNamesArraysAndPackedCodes) {
  HostArray b("b", ElemType::f32, {2});
  b.set(0, 5);
  b.set(1, -5);
  write_npy((dir_ / "b.npy").string(), b);
  const Graph graph = read(R"(input "x": f32[3, 4]
const "q": u4[4, 2] = from "w.safetensors" "layer.q"
const "b": f32[2] = from "b.npy"
const "s": f32[1, 2] = {1, 0.5}
"y" = "matmul:m=3,n=2,k=4,w.dtype=u4,w.scale=f32,epilogue=[bias]" (A="x", B="q", B.scale="s", bias="b")
output "y"
)");
  const Bytes y = interpret(graph, {{"x", floats({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1})}})[0];
  EXPECT_EQ(*y, *floats({6, -4, 8, -3, 12, -5}));
}

TEST_F(GraphProgram, TheTextReadsBack) {
  const std::string text =
      "graph \"g\"\ninput \"x\": f32[3, 4]\nconst \"w\": f32[4, 2] = from \"w.safetensors\"\n"
      "const \"v\": f32[4, 2] = from \"w.safetensors\" \"w\"\n"
      "\"y\": f32[3, 2] = \"matmul:m=3,n=2,k=4\" (A=\"x\", B=\"w\")\noutput \"y\"\n";
  EXPECT_EQ(to_string(parse_graph(text)), text);
}

TEST_F(GraphProgram, RefusesFilesWithTheirConstant) {
  const auto with = [&](const std::string& constant) {
    return mistake("input \"x\": f32[3, 4]\nconst " + constant + "\n" + kReadProduct);
  };
  EXPECT_THAT(with("\"w\": f32[4, 2] = from \"../w.safetensors\""),
              HasSubstr("constant 'w': '../w.safetensors' lies outside of the program's folder"));
  EXPECT_THAT(with("\"w\": f32[4, 2] = from \"/etc/passwd\""), HasSubstr("lies outside"));
  EXPECT_THAT(with("\"w\": f32[4, 2] = from \"none.safetensors\""), HasSubstr("none.safetensors"));
  EXPECT_THAT(with("\"w\": f32[4, 2] = from \"w.safetensors\" \"u\""),
              HasSubstr("has no tensor 'u'; it has w, layer.q"));
  EXPECT_THAT(with("\"w\": f32[2, 4] = from \"w.safetensors\""),
              HasSubstr("has F32 of shape [4, 2]; expected f32[2, 4]"));
  EXPECT_THAT(with("\"w\": f16[4, 2] = from \"w.safetensors\""), HasSubstr("expected f16[4, 2]"));
  EXPECT_THAT(with("\"w\": u4[4, 4] = from \"w.safetensors\" \"layer.q\""),
              HasSubstr("expected u4[4, 4], or 8 bytes of U8"));
  EXPECT_THAT(with("\"w\": f32[4, 2] = xxh3:0123456789abcdef"),
              HasSubstr("has no data here, only the name xxh3:0123456789abcdef"));
  EXPECT_THAT(with("\"w\": f32[4, 2] = from \"\""), HasSubstr("expected the name of a file"));
}

TEST_F(GraphProgram, RefusesTextsWithLineColumnAndByte) {
  EXPECT_THAT(mistake("graph \"p\"\ninput \"x\": f33[3]\n"),
              HasSubstr("p.tg: line 2, column 15 (byte 24): no value has elements of f33"));
  EXPECT_THAT(mistake("input \"x\": f32[3]\n\"y\" = \"matmul:m=3\" (A=\"x\")\n"),
              HasSubstr("line 2, column 19 (byte 36): "));
  EXPECT_THAT(
      mistake("input \"x\": f32[3]\n\"y\" = view \"x\"\n"),
      HasSubstr(
          "line 2, column 7 (byte 24): expected the shape of a view, a write or a plain node"));
  EXPECT_THAT(mistake("input \"x\": f32[3]\n"), HasSubstr("it has no output"));
  EXPECT_THAT(mistake("dim \"n\": 1..8 as 4274\n"),
              HasSubstr("4274 is no stand-in; expected one of 2137, "));
  EXPECT_THAT(mistake(R"(input "x": f32[3, 4]
"y" = "softmax:m=3,n=4" (A="x") for "rows"
output "y"
)"),
              HasSubstr("'rows': operand X is missing"));
}

TEST_F(GraphProgram, KnowsProgramsByNameAndBeginning) {
  EXPECT_TRUE(is_program("", "p.tg"));
  EXPECT_TRUE(is_program("graph \"g\"\n", "p.txt"));
  EXPECT_FALSE(is_program("\x08\x08", "m.onnx"));
}

TEST_F(GraphProgram, OtherNumbersForItsSizes) {
  const Graph graph = read(R"(dim "batch": 1..8 as 2137
input "x": f32[2137, 4]
const "w": f32[4, 2] = from "w.safetensors"
"y" = "matmul:m=2137,n=2,k=4" (A="x", B="w")
output "y"
)");
  EXPECT_EQ(type_text(graph.values[graph.find("y")]), "f32[2137, 2]");
  const Graph other = with_stand_ins(graph, onnx::kOtherStandIns);
  EXPECT_EQ(type_text(other.values[other.find("y")]), "f32[2141, 2]");
  EXPECT_EQ(other.dims[0].stand_in, 2141);
  EXPECT_NO_THROW(require_same(graph, other));
}

}  // namespace
}  // namespace tilewright::graph
