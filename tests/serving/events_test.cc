// Launches are told to whom asks: spec, time and threads.
#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

struct Event {
  std::string spec;
  double seconds;
  int threads;
};

// Options whose launches come to the list.
tw_open_options observed(std::vector<Event>& events) {
  auto options = TW_INIT(tw_open_options);
  options.log = [](void*, const char*) {};
  options.launched = [](void* user, const tw_launch_event* e) {
    static_cast<std::vector<Event>*>(user)->push_back({e->spec, e->seconds, e->threads});
  };
  options.launched_user = &events;
  return options;
}

TEST(ServingEvents, EachLaunchThatSucceedsIsTold) {
  Database db{{}};
  std::vector<Event> events;
  const tw_open_options options = observed(events);
  tw_library* library = nullptr;
  ASSERT_EQ(tw_open(db.path().c_str(), &options, &library), TW_OK) << tw_last_error();
  {
    PreparedSpec p(library, "matmul:m=4,n=8,k=16");
    Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
    Packed packed(p.kernel, b);
    EXPECT_TRUE(events.empty()) << "packing is no launch";
    ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].spec, "matmul:m=4,n=8,k=16");
    EXPECT_GT(events[0].seconds, 0);
    EXPECT_EQ(events[0].threads, 1);
    EXPECT_NE(launch(p.kernel, a, nullptr, c), TW_OK) << "without weights";
    EXPECT_EQ(events.size(), 1u);
  }
  tw_close(library);
}

TEST(ServingEvents, NodesOfAModelAreLaunches) {
  Database db{{}};
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), y({4, 8}), z({32});
  std::vector<Event> events;
  const tw_open_options open = observed(events);
  OpenedModel opened(write_model(db.path(), product_graph(b)), &open);
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  ASSERT_EQ(opened.run(x, y, z), TW_OK) << tw_last_error();
  ASSERT_EQ(opened.run(x, y, z, nullptr, true), TW_OK) << tw_last_error();
  ASSERT_EQ(events.size(), 2u) << "of the product; a view launches nothing";
  EXPECT_EQ(events[1].spec, "matmul:m=4,n=8,k=16");
}

}  // namespace
}  // namespace tilewright::serving::testing
