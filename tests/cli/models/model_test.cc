// Reading ONNX files: what stands in them, and what is wrong with damaged ones.
#include "models/onnx/model.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "cli/models/extract.h"
#include "runtime/error.h"
#include "tests/cli/models/onnx_file.h"

namespace tilewright::onnx {
namespace {

using test::OnnxFile;
using test::WireText;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& bytes) {
  try {
    read_model(bytes, "m.onnx");
  } catch (const FileError& e) {
    return e.what();
  }
  return "";
}

std::string graph(const WireText& fields) { return WireText().bytes(7, fields.text()).text(); }

std::string constant(const WireText& tensor) { return graph(WireText().bytes(5, tensor.text())); }

TEST(OnnxModel, NodesConstantsAndShapesAreRead) {
  const std::string bytes =
      OnnxFile(13)
          .input("x", {1, "seq", ""})
          .floats("w", {2, 2}, {1, 2, 3, 4})
          .node("Conv", {"x", "w"}, {"y"},
                {test::wholes("pads", {1, 2}), test::real("alpha", 0.5f), test::words("s", "text")})
          .node("MatMulNBits", {"y", "", "w"}, {"z"}, {test::whole("K", -3)}, "com.microsoft")
          .output("z")
          .bytes();
  Model m = read_model(bytes, "m.onnx");
  EXPECT_EQ(m.opsets.at(""), 13);
  EXPECT_EQ(m.producer, "a test");
  ASSERT_EQ(m.nodes.size(), 2u);
  EXPECT_EQ(m.nodes[0].label(), "make_y");
  EXPECT_THAT(*m.nodes[0].integers("pads"), ElementsAre(1, 2));
  EXPECT_EQ(m.nodes[0].real("alpha", 0), 0.5);
  EXPECT_EQ(m.nodes[0].text("s", ""), "text");
  EXPECT_EQ(m.nodes[1].full_op(), "com.microsoft.MatMulNBits");
  EXPECT_EQ(m.nodes[1].integer("K", 0), -3);
  EXPECT_FALSE(m.nodes[1].has_input(1));
  EXPECT_EQ(m.constants.at("w").at(2), 3);
  ASSERT_EQ(m.inputs.size(), 1u);
  const std::vector<DeclaredSize>& shape = *m.inputs[0].shape;
  EXPECT_EQ(shape[0].number, 1);
  EXPECT_EQ(shape[1].name, "seq");
  EXPECT_FALSE(shape[2].number);
}

// The forms in which elements are stored: bytes, packed or single numbers of 32 and 64 bits.
TEST(OnnxModel, ElementsOfEveryStorageAreRead) {
  auto only = [](const WireText& tensor) {
    static std::string bytes;  // what is read refers to it
    bytes = constant(tensor);
    return read_model(bytes, "m.onnx").constants.begin()->second;
  };
  const float reals[] = {1.5f, -2};
  const std::string packed(reinterpret_cast<const char*>(reals), sizeof reals);
  EXPECT_EQ(only(WireText().number(1, 2).number(2, 1).bytes(4, packed)).at(1), -2);
  EXPECT_EQ(only(WireText().number(1, 1).number(2, 1).real(4, 0.25f)).at(0), 0.25);
  EXPECT_EQ(only(WireText().number(1, 1).number(2, 3).number(5, -7)).at(0), -7);
  EXPECT_EQ(only(WireText().number(1, 2).number(2, 10).number(5, 0x3c00).number(5, 0xc000)).at(1),
            -2)
      << "f16 by its bits";
  EXPECT_EQ(only(WireText().number(1, 3).number(2, 22).bytes(9, "\x7f\x01")).at(0), -1) << "i4";
  EXPECT_EQ(only(WireText().number(1, 3).number(2, 21).number(5, 0x31).number(5, 2)).at(1), 3);
  EXPECT_EQ(only(WireText().number(1, 2).number(2, 9).bytes(9, std::string("\0\1", 2))).at(1), 1);
  Tensor outside = only(WireText().number(1, 2).number(2, 1).bytes(13, "").number(14, 1));
  EXPECT_FALSE(outside.readable());
}

TEST(OnnxModel, DamageIsNamedWithItsByte) {
  EXPECT_EQ(refusal(""),
            "m.onnx: byte 0: expected an ONNX model with a graph (field 7), found none");
  EXPECT_EQ(refusal("\x3a\x05\x0a"),
            "m.onnx: byte 2: expected field 7 of 5 bytes, found the end of the message 1 bytes on");
  EXPECT_EQ(refusal("\x80"),
            "m.onnx: byte 0: expected the tag of a field, found the end of the "
            "message 1 bytes on");
  EXPECT_EQ(refusal(std::string(11, '\xff')),
            "m.onnx: byte 0: expected the tag of a field of at most 10 bytes, found a longer one");
  EXPECT_EQ(refusal(std::string("\x00\x00", 2)),
            "m.onnx: byte 0: expected a field of a model, found number 0");
  EXPECT_EQ(refusal("\x0b"), "m.onnx: byte 0: expected a field of type 0, 1, 2 or 5, found type 3");
  EXPECT_EQ(refusal(WireText().number(7, 1).text()),
            "m.onnx: byte 0: expected the graph as a field of type 2, found type 0");
  EXPECT_EQ(refusal(graph(WireText().bytes(1, WireText().bytes(1, "\xff").text()))),
            "m.onnx: byte 4: expected the name of a node's input in UTF-8");
  EXPECT_EQ(refusal(graph(WireText().bytes(1, WireText().bytes(3, "n").text()))),
            "m.onnx: byte 2: expected the operator of node 'n'");
  EXPECT_EQ(refusal(constant(WireText().number(1, -1).number(2, 1).bytes(8, "w"))),
            "m.onnx: byte 2: expected sizes of 0 or more for tensor 'w', found -1");
  EXPECT_EQ(refusal(constant(WireText().number(1, int64_t{1} << 40).number(1, 1 << 30))),
            "m.onnx: byte 2: the shape of tensor '' overflows");
  EXPECT_EQ(refusal(constant(WireText().number(1, 3).number(2, 1).bytes(8, "w").bytes(9, "abcd"))),
            "m.onnx: byte 2: expected 12 bytes in tensor 'w' of 3 elements of f32, found 4");
  EXPECT_EQ(refusal(constant(WireText().number(1, 3).number(2, 7).number(7, 5))),
            "m.onnx: byte 2: expected 3 numbers in tensor '' of 3 elements of i64, found 1");
  EXPECT_EQ(refusal(constant(WireText().number(2, 1).bytes(4, "abc"))),
            "m.onnx: byte 6: expected the elements of a constant of 4 bytes each, found 3 bytes");
  WireText twice;
  twice.bytes(5, WireText().bytes(8, "w").text()).bytes(5, WireText().bytes(8, "w").text());
  EXPECT_EQ(refusal(graph(twice)), "m.onnx: byte 7: constant 'w' stands twice");
  EXPECT_EQ(refusal(graph(WireText()) + graph(WireText())),
            "m.onnx: byte 2: expected one graph, found another one");
}

// A model with one of everything that inference calculates with.
std::string varied_model() {
  return OnnxFile()
      .input("x", {2, 8, 6, 6})
      .input("ids", {2, "seq"}, test::kInt64)
      .weight("w", {8, 8, 1, 1})
      .weight("table", {11, 8})
      .weight("b", {8})
      .integers("axes", {1})
      .integers("starts", {0})
      .integers("ends", {2})
      .integers("minus", {-1})
      .node("Conv", {"x", "w", "b"}, {"c"}, {test::wholes("strides", {1, 1})})
      .node("Relu", {"c"}, {"r"})
      .node("Shape", {"r"}, {"shape"})
      .node("Slice", {"shape", "starts", "axes"}, {"first"})
      .node("Concat", {"first", "minus"}, {"wanted"}, {test::whole("axis", 0)})
      .node("Reshape", {"r", "wanted"}, {"flat"})
      .node("Transpose", {"flat"}, {"turned"}, {test::wholes("perm", {1, 0})})
      .node("MatMul", {"turned", "flat"}, {"square"})
      .node("Softmax", {"square"}, {"rows"}, {test::whole("axis", -1)})
      .node("Gather", {"table", "ids"}, {"embedded"})
      .node("ReduceMean", {"embedded"}, {"mean"}, {test::wholes("axes", {-1})})
      .node("Sub", {"embedded", "mean"}, {"distance"})
      .node("Split", {"distance"}, {"left", "right"}, {test::whole("axis", 2)})
      .output("rows")
      .output("right")
      .bytes();
}

// Whatever the bytes, the answer is a model with workloads or an error that says what is wrong.
void survive(const std::string& bytes) {
  try {
    Model m = read_model(bytes, "m.onnx");
    cli::model_workloads(m, {{"seq", {1, 16}}}, {});
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("m.onnx"));
  }
}

// The largest integers stay what they are: an end of INT64_MAX is "to the end".
TEST(OnnxModel, LargestIntegersAreExact) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const std::string bytes = OnnxFile()
                                .input("x", {4, 10})
                                .weight("w", {7, 5})
                                .integers("three", {3})
                                .integers("end", {kEnd})
                                .integers("axis", {1})
                                .node("Slice", {"x", "three", "end", "axis"}, {"rest"})
                                .node("MatMul", {"rest", "w"}, {"y"})
                                .output("y")
                                .bytes();
  const Model model = read_model(bytes, "m.onnx");
  EXPECT_EQ(model.constants.at("end").whole_at(0), kEnd);
  const auto all = cli::model_workloads(model, {}, {});
  ASSERT_EQ(all.workloads.size(), 1u);
  EXPECT_EQ(spec_to_inline(parse_spec(all.workloads[0].workload.canonical)), "matmul:m=4,n=5,k=7");
}

TEST(OnnxModel, ASumOfTwoIsAnAddition) {
  const auto specs = [](const std::string& op) {
    const std::string bytes = OnnxFile()
                                  .input("x", {4, 8})
                                  .input("z", {4, 6})
                                  .weight("w", {8, 6})
                                  .node("MatMul", {"x", "w"}, {"y"})
                                  .node(op, {"y", "z"}, {"s"})
                                  .node("Relu", {"s"}, {"r"})
                                  .output("r")
                                  .bytes();
    std::string text;
    for (const auto& w : cli::model_workloads(read_model(bytes, "m.onnx"), {}, {}).workloads) {
      text += w.spec + "\n";
    }
    return text;
  };
  EXPECT_EQ(specs("Sum"), specs("Add"));
  EXPECT_THAT(specs("Sum"), testing::HasSubstr("add"));
}

TEST(OnnxModel, GraphsWithinGraphsEndSomewhere) {
  const auto nested = [](int depth) {
    OnnxFile graph;
    graph.node("Relu", {"x"}, {"y"});
    for (int d = 0; d < depth; ++d) {
      OnnxFile around;
      around.node("If", {"c"}, {"y"}, {graph.as_attribute("then_branch")});
      graph = around;
    }
    return graph.bytes();
  };
  const std::string deep = nested(16), deeper = nested(17);
  EXPECT_EQ(onnx::read_model(deep, "m.onnx").nodes.size(), 17u);
  try {
    onnx::read_model(deeper, "m.onnx");
    ADD_FAILURE() << "17 graphs within each other were read";
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("expected at most 16 graphs within each other"));
  }
}

TEST(OnnxModel, CutShortAtAnyByteItIsRefusedOrRead) {
  const std::string bytes = varied_model();
  for (size_t length = 0; length < bytes.size(); length += length < 64 ? 1 : 7) {
    survive(bytes.substr(0, length));
  }
}

TEST(OnnxModel, FlippedBitsAreRefusedOrRead) {
  const std::string bytes = varied_model();
  ASSERT_GT(
      cli::model_workloads(read_model(bytes, "m.onnx"), {{"seq", {1, 16}}}, {}).workloads.size(),
      4u)
      << "the model itself is right";
  std::mt19937 random(7);
  for (int i = 0; i < 600; ++i) {
    std::string damaged = bytes;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    }
    survive(damaged);
  }
}

}  // namespace
}  // namespace tilewright::onnx
