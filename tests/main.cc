// The main program of tests. Each step of a schedule is verified, whoever starts them.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("TILEWRIGHT_VERIFY", "1", 0);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
