// States of whole models through the C interface.
#include "tests/serving/models/model_fixture.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

class ServingStates : public ::testing::Test {
 protected:
  tw::Model open(const std::string& path, const tw::Model* states_of = nullptr) {
    return {path, 0, [](const std::string&) {}, {}, states_of};
  }
  void run(tw::Model& model, int32_t p) {
    const Number position(p);
    model.run({&x_.tensor, &position.tensor}, {&y_.tensor, &z_.tensor});
  }
  // The rows from `first` on are those of the last run.
  void expect_rows(const float* state, int64_t first) {
    for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(state[first * 8 + i], y_[i]) << i;
  }
  static const float* memory(const tw::Model& model) {
    return static_cast<const float*>(model.states().at(0).second);
  }

  Database db_{{.tag = 5}};
  Floats b_{{16, 8}, 2}, x_{{2, 2, 16}, 1}, y_{{4, 8}}, z_{{32}};
  std::string path_ = write_model(db_.path(), with_state(b_, 6));
};

TEST_F(ServingStates, KeepTheirRowsFromRunToRun) {
  tw::Model model = open(path_);
  const auto states = model.states();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_STREQ(states[0].first.name, "s");
  EXPECT_EQ(states[0].first.shape[0], 6);
  EXPECT_EQ(states[0].first.dtype.bits, 32);
  const float* s = memory(model);
  for (int i = 0; i < 48; ++i) EXPECT_EQ(s[i], 0);
  run(model, 2);
  expect_rows(s, 2);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(s[i], 0);
  run(model, 0);
  expect_rows(s, 0);
  EXPECT_NE(s[40], 0) << "what the first run wrote stays";
  EXPECT_EQ(model.nodes().size(), 1u) << "a write is no node of a profile";
}

TEST_F(ServingStates, RefusesRowsOutsideBeforeAnythingChanges) {
  tw::Model model = open(path_);
  for (int32_t wrong : {-1, 3, INT32_MAX}) {
    try {
      run(model, wrong);
      ADD_FAILURE() << wrong;
    } catch (const tw::Error& e) {
      EXPECT_EQ(e.status(), TW_ERROR_TENSOR);
      EXPECT_EQ(std::string(e.what()),
                "input 'p': it is " + std::to_string(wrong) + "; expected 0 to 2");
    }
  }
  for (int i = 0; i < 48; ++i) EXPECT_EQ(memory(model)[i], 0);
}

TEST_F(ServingStates, AreSharedByModels) {
  auto lender = std::make_unique<tw::Model>(open(path_));
  tw::Model borrower = open(path_, lender.get());
  EXPECT_EQ(memory(borrower), memory(*lender));
  run(*lender, 1);
  expect_rows(memory(borrower), 1);
  lender.reset();  // the states stay with the other model
  expect_rows(memory(borrower), 1);
  run(borrower, 2);
  expect_rows(memory(borrower), 2);
  tw::Model other = open(path_);
  EXPECT_NE(memory(other), memory(borrower));
}

TEST_F(ServingStates, OfOtherNamesAndShapesAreNotShared) {
  const tw::Model lender = open(path_);
  auto refusal = [&](const graph::Graph& graph) -> std::string {
    try {
      open(write_model(db_.path(), graph, "other.tw"), &lender);
    } catch (const tw::Error& e) {
      EXPECT_EQ(e.status(), TW_ERROR_ARGUMENT);
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(
      refusal(with_state(b_, 5)),
      HasSubstr("state 's' is f32[5, 8]; the model that shares its states has one of f32[6, 8]"));
  EXPECT_THAT(refusal(with_state(b_, 6, "r")),
              HasSubstr("state 'r' is f32[6, 8]; the model that "
                        "shares its states has none of that name"));
}

TEST_F(ServingStates, AreCountedAndNamed) {
  OpenedModel opened(path_);
  EXPECT_EQ(tw_model_state_count(opened.model), 1u);
  EXPECT_EQ(tw_model_state_count(nullptr), 0u);
  auto port = TW_INIT(tw_port);
  void* data = nullptr;
  EXPECT_EQ(tw_model_state_at(opened.model, 1, &port, &data), TW_ERROR_ARGUMENT);
  EXPECT_EQ(tw_model_state_at(opened.model, 0, &port, nullptr), TW_ERROR_ARGUMENT);
  EXPECT_EQ(tw_model_state_at(opened.model, 0, &port, &data), TW_OK);
  EXPECT_NE(data, nullptr);
}

}  // namespace
}  // namespace tilewright::serving::testing
