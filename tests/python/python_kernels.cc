// Writes a database with kernels made by hand for the tests of the Python package, and beside it
// model.tw, which serves a product by the third: python_kernels FILE
#include <iostream>

#include "tests/serving/models/model_fixture.h"

int main(int argc, char** argv) {
  using namespace tilewright::serving::testing;
  using tilewright::database::Store;
  if (argc != 2) {
    std::cerr << "usage: python_kernels FILE\n";
    return 2;
  }
  Store store = Store::open(argv[1], tilewright::database::Mode::Create);
  // The second adds 5 to each element, so that a test sees whose weights it was given.
  add_kernel(store, {.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .scratch = 64});
  add_kernel(store, {.spec = "matmul:m=100..128,n=8,k=16", .dynamic = true, .tag = 5});
  add_kernel(store, {.spec = "matmul:m=4,n=8,k=16", .packed = false, .tag = 7});
  write_model(argv[1], product_graph(Floats({16, 8}, 2)));
  return 0;
}
