// Loops of model files: each round has its rows, the count of a run ends them.
#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

// Rounds of the loop on these inputs; what later rounds would give stays as it was.
std::vector<float> rows_of(const Floats& b, const Floats& xs, int32_t rounds, bool back) {
  Database db{{}};
  Floats ys({3, 4, 8});
  OpenedModel opened(write_model(db.path(), with_loop(b, back)));
  EXPECT_EQ(opened.status, TW_OK) << tw_last_error();
  const Number count(rounds);
  const DLTensor *inputs[] = {&xs.tensor, &count.tensor}, *outputs[] = {&ys.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = 2;
  args.output_count = 1;
  EXPECT_EQ(tw_model_run(opened.model, &args), TW_OK) << tw_last_error();
  const auto* first = static_cast<const float*>(ys.tensor.data);
  return {first, first + 3 * 4 * 8};
}

// The products of all rows by themselves.
std::vector<float> products(const Floats& b, const Floats& xs) {
  const auto *x = static_cast<const float*>(xs.tensor.data),
             *w = static_cast<const float*>(b.tensor.data);
  std::vector<float> made;
  for (int row = 0; row < 12; ++row) {
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += x[row * 16 + k] * w[k * 8 + j];
      made.push_back(sum);
    }
  }
  return made;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, size_t first,
                 size_t last) {
  for (size_t i = first; i < last; ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
}

TEST(ServingLoops, EachRoundHasItsRows) {
  const Floats b({16, 8}, 2), xs({3, 4, 16}, 1);
  const std::vector<float> want = products(b, xs);
  expect_near(rows_of(b, xs, 3, false), want, 0, 96);
  expect_near(rows_of(b, xs, 3, true), want, 0, 96);
}

TEST(ServingLoops, ARunSaysHowManyRoundsThereAre) {
  const Floats b({16, 8}, 2), xs({3, 4, 16}, 1);
  const std::vector<float> want = products(b, xs);
  expect_near(rows_of(b, xs, 2, false), want, 0, 64);
  expect_near(rows_of(b, xs, 7, false), want, 0, 96);  // at most as many as there are rows
  rows_of(b, xs, -1, false);
}

}  // namespace
}  // namespace tilewright::serving::testing
