// Sizes that a run calculates: what the import makes of them, by the interpreter, also with values that no model should
// have.
#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "graph/sizes.h"
#include "tests/graph/graphs.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using test::whole;
using test::wholes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

Bytes integers(const std::vector<int64_t>& values) {
  return std::make_shared<std::string>(test::raw_text(values));
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

// The program behind the passes, which both rows of stand-ins make the same.
Graph passed(const OnnxFile& file, const std::map<std::string, DimSize>& sizes = {}) {
  const std::string bytes = file.bytes();
  const onnx::Model model = onnx::read_model(bytes, "m.onnx");
  const auto made = [&](const onnx::StandIns& stand_ins) {
    Graph graph = import_onnx(model, sizes, stand_ins);
    verify(graph);
    fold_constants(&graph);
    optimize(&graph);
    verify(graph);
    return graph;
  };
  Graph graph = made(onnx::kStandIns);
  require_same(graph, made(onnx::kOtherStandIns));
  return graph;
}

struct Ran {
  std::vector<Bytes> outputs;
  std::vector<Shape> shapes;
  std::string refusal;
};

Ran run_of(const Graph& graph, const std::map<std::string, Bytes>& inputs) {
  Ran ran;
  std::map<std::string, Bytes> states;
  try {
    ran.outputs = interpret(graph, inputs, &states, {}, &ran.shapes);
  } catch (const GraphError& e) {
    ran.refusal = e.what();
  }
  return ran;
}

TEST(CalculatedSizes, TopKTakesAsManyAsAValueSays) {
  OnnxFile file;
  file.input("x", {2, 5})
      .input("k", {1}, test::kInt64)
      .node("TopK", {"x", "k"}, {"most", "places"})
      .node("Mul", {"most", "most"}, {"squares"})
      .output("squares")
      .output("places");
  const Graph graph = passed(file);
  const Bytes x = floats({1, 5, 2, 4, 3, 9, 8, 7, 6, 5});
  Ran ran = run_of(graph, {{"x", x}, {"k", integers({2})}});
  EXPECT_THAT(ran.shapes[0], ElementsAre(2, 2));
  EXPECT_THAT(values_of<float>(ran.outputs[0]), ElementsAre(25, 16, 81, 64));
  EXPECT_THAT(values_of<int64_t>(ran.outputs[1]), ElementsAre(1, 3, 0, 1));
  EXPECT_THAT(run_of(graph, {{"x", x}, {"k", integers({0})}}).shapes[0], ElementsAre(2, 0));
  for (const int64_t k : {int64_t{-1}, int64_t{6}, kFar, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(run_of(graph, {{"x", x}, {"k", integers({k})}}).refusal,
                HasSubstr("a size is " + std::to_string(k) + " in this run; expected 0 to 5"));
  }
}

TEST(CalculatedSizes, RangesOfIntegersAndFloats) {
  OnnxFile file;
  file.input("a", {}, test::kInt64)
      .input("b", {}, test::kInt64)
      .input("c", {}, test::kInt64)
      .input("f", {}, test::kFloat)
      .number("zero", 0)
      .number("half", 0.5)
      .node("Range", {"a", "b", "c"}, {"y"})
      .node("Range", {"zero", "f", "half"}, {"z"})
      .output("y")
      .output("z");
  EXPECT_THAT(import_refusal(file),
              HasSubstr("the run calculates the size 'y.0', and nothing says its most; --dim "
                        "'y.0=1..N' says it"));
  const Graph graph = passed(file, {{"y.0", {1, 8}}, {"z.0", {1, 6}}});
  const auto ran = [&](int64_t a, int64_t b, int64_t c, float f) {
    return run_of(
        graph,
        {{"a", integers({a})}, {"b", integers({b})}, {"c", integers({c})}, {"f", floats({f})}});
  };
  EXPECT_THAT(values_of<int64_t>(ran(3, 10, 3, 1.2F).outputs[0]), ElementsAre(3, 6, 9));
  EXPECT_THAT(values_of<float>(ran(3, 10, 3, 1.2F).outputs[1]), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(values_of<int64_t>(ran(3, -4, -3, 1).outputs[0]), ElementsAre(3, 0, -3));
  EXPECT_THAT(values_of<int64_t>(ran(-kFar, kFar, kFar, 1).outputs[0]), ElementsAre(-kFar, 0));
  EXPECT_THAT(ran(3, 3, 1, -5).shapes[0], ElementsAre(0));
  EXPECT_THAT(ran(3, 3, 1, -5).shapes[1], ElementsAre(0));
  EXPECT_THAT(ran(0, 5, 0, 1).refusal, HasSubstr("'make_y': its step is 0 in this run"));
  EXPECT_THAT(ran(0, 9, 1, 1).refusal, HasSubstr("it gives more than 8 elements"));
  EXPECT_THAT(ran(-kFar, kFar, 1, 1).refusal, HasSubstr("it gives more than 8 elements"));
  EXPECT_THAT(ran(0, 1, 1, 1e30F).refusal, HasSubstr("it gives more than 6 elements"));
  EXPECT_THAT(ran(0, 1, 1, NAN).refusal, HasSubstr("expected finite numbers"));
}

TEST(CalculatedSizes, FloatsThatFollowFromSizesAreNoneOfARun) {
  OnnxFile file;
  file.input("x", {2, 3})
      .integers("one", {1})
      .node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "one"}, {"columns"})
      .node("Squeeze", {"columns"}, {"n"})
      .node("Cast", {"n"}, {"f"}, {whole("to", 1)})
      .number("start", 0.5)
      .number("zero", 0)
      .number("step", 1)
      .node("Range", {"zero", "f", "step"}, {"range"})
      .node("Add", {"range", "start"}, {"centers"})
      .node("Mul", {"x", "centers"}, {"y"})
      .output("y");
  EXPECT_THAT(run(file, {{"x", floats({1, 1, 1, 2, 2, 2})}}), ElementsAre(0.5, 1.5, 2.5, 1, 3, 5));
}

// Numbers of a float type are not rounded, so no size follows from this quotient.
TEST(CalculatedSizes, QuotientsOfFloatsAreNoSizes) {
  OnnxFile file;
  file.input("x", {5})
      .node("Shape", {"x"}, {"shape"})
      .node("Cast", {"shape"}, {"f"}, {whole("to", 1)})
      .integers("two", {2})
      .node("Cast", {"two"}, {"g"}, {whole("to", 1)})
      .node("Div", {"f", "g"}, {"half"})
      .node("Mul", {"x", "half"}, {"y"})
      .output("y");
  EXPECT_THAT(run(file, {{"x", floats({1, 2, 3, 4, 5})}}), ElementsAre(2.5, 5, 7.5, 10, 12.5));
}

TEST(CalculatedSizes, SlicesShareTheirSize) {
  OnnxFile file;
  file.input("x", {2, 4})
      .input("z", {4})
      .input("a", {1}, test::kInt64)
      .input("b", {1}, test::kInt64)
      .integers("one", {1})
      .integers("zero", {0})
      .node("Slice", {"x", "a", "b", "one"}, {"part"})
      .node("Slice", {"z", "a", "b", "zero"}, {"other"})
      .node("Add", {"part", "other"}, {"y"})
      .output("y");
  const Graph graph = passed(file);
  EXPECT_EQ(graph.dims.size(), 1);
  const auto ran = [&](int64_t a, int64_t b) {
    return run_of(graph, {{"x", floats({1, 2, 3, 4, 5, 6, 7, 8})},
                          {"z", floats({10, 20, 30, 40})},
                          {"a", integers({a})},
                          {"b", integers({b})}});
  };
  EXPECT_THAT(values_of<float>(ran(1, 3).outputs[0]), ElementsAre(22, 33, 26, 37));
  EXPECT_THAT(values_of<float>(ran(-1, kFar).outputs[0]), ElementsAre(44, 48));
  EXPECT_THAT(values_of<float>(ran(-kFar, -3).outputs[0]), ElementsAre(11, 15));
  EXPECT_THAT(ran(3, 1).shapes[0], ElementsAre(2, 0));
  EXPECT_THAT(ran(kFar, -kFar).shapes[0], ElementsAre(2, 0));
}

// The first three of those that a run finds: the lesser of a size of the run and a number.
TEST(CalculatedSizes, SlicesOfFoundSizesBeginAndEndAsNumbersSay) {
  OnnxFile file;
  file.input("x", {6})
      .integers("zero", {0})
      .integers("three", {3})
      .integers("far", {std::numeric_limits<int64_t>::min()})
      .integers("last", {-1})
      .integers("flat", {-1})
      .node("NonZero", {"x"}, {"found"})
      .node("Reshape", {"found", "flat"}, {"places"})
      .node("Slice", {"places", "zero", "three"}, {"first"})
      .node("Slice", {"places", "three", "far", "zero", "last"}, {"back"})
      .output("first")
      .output("back");
  const Graph graph = passed(file);
  Ran ran = run_of(graph, {{"x", floats({1, 0, 1, 1, 1, 1})}});
  EXPECT_THAT(values_of<int64_t>(ran.outputs[0]), ElementsAre(0, 2, 3));
  EXPECT_THAT(values_of<int64_t>(ran.outputs[1]), ElementsAre(4, 3, 2, 0));
  ran = run_of(graph, {{"x", floats({0, 0, 0, 0, 0, 1})}});
  EXPECT_THAT(values_of<int64_t>(ran.outputs[0]), ElementsAre(5));
  EXPECT_THAT(values_of<int64_t>(ran.outputs[1]), ElementsAre(5));
  EXPECT_THAT(run_of(graph, {{"x", floats({0, 0, 0, 0, 0, 0})}}).shapes[1], ElementsAre(0));
}

TEST(CalculatedSizes, ShapesThatValuesSay) {
  OnnxFile file;
  file.input("x", {3})
      .input("sizes", {2}, test::kInt64)
      .integers("first", {0})
      .integers("three", {3})
      .integers("eight", {8})
      .node("Gather", {"sizes", "first"}, {"n"})
      .node("Concat", {"n", "three"}, {"shape"}, {whole("axis", 0)})
      .node("Expand", {"x", "shape"}, {"rows"})
      .node("ConstantOfShape", {"shape"}, {"zeros"})
      .node("Add", {"rows", "zeros"}, {"sum"})
      .integers("all", {-1})
      .node("Reshape", {"sum", "all"}, {"y"})
      .output("y");
  const Graph graph = passed(file, {{"sizes[0]", {1, 4}}});
  const auto ran = [&](int64_t n) {
    return run_of(graph, {{"x", floats({1, 2, 3})}, {"sizes", integers({n, 7})}});
  };
  EXPECT_THAT(values_of<float>(ran(2).outputs[0]), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(ran(0).shapes[0], ElementsAre(0));
  EXPECT_THAT(ran(5).refusal, HasSubstr("'make_rows': a size is 5 in this run; expected 0 to 4"));
  EXPECT_THAT(ran(-2).refusal, HasSubstr("'make_rows': a size is -2 in this run; expected 0 to 4"));
}

// A single size of a shape follows from the others, whatever a value says.
TEST(CalculatedSizes, ReshapesHaveTheRest) {
  OnnxFile file;
  file.input("x", {6})
      .input("n", {1}, test::kInt64)
      .integers("two", {2})
      .node("Concat", {"n", "two"}, {"shape"}, {whole("axis", 0)})
      .node("Reshape", {"x", "shape"}, {"rows"})
      .integers("one", {1})
      .node("ReduceSum", {"rows", "one"}, {"y"}, {whole("keepdims", 0)})
      .output("y");
  EXPECT_THAT(imported(file).dims, IsEmpty());
  EXPECT_THAT(run(file, {{"x", floats({1, 2, 3, 4, 5, 6})}, {"n", integers({3})}}),
              ElementsAre(3, 7, 11));
}

TEST(CalculatedSizes, MoreThanFourNamedSizes) {
  OnnxFile file;
  for (int i = 0; i < 6; ++i) {
    file.input("x" + std::to_string(i), {"n" + std::to_string(i), 2})
        .node("Relu", {"x" + std::to_string(i)}, {"y" + std::to_string(i)})
        .output("y" + std::to_string(i));
  }
  std::map<std::string, DimSize> sizes;
  for (int i = 0; i < 6; ++i) sizes["n" + std::to_string(i)] = {1, 5};
  const Graph graph = passed(file, sizes);
  EXPECT_EQ(graph.dims.size(), 6);
}

TEST(CalculatedSizes, NamesThatNoSizeHasAreRefused) {
  OnnxFile file;
  file.input("x", {2, 5})
      .input("k", {1}, test::kInt64)
      .node("TopK", {"x", "k"}, {"most", "places"})
      .output("most");
  EXPECT_THAT(import_refusal(file, {{"k[1]", {1, 4}}}),
              HasSubstr("--dim k[1]=1..4: the inputs of m.onnx have no dimension of that name"));
  EXPECT_THAT(import_refusal(file, {{"k[0]", {1, 4}}}), "");
}

}  // namespace
}  // namespace tilewright::graph
