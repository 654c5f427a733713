// NumPy arrays.
#include "runtime/error.h"
#include "runtime/tensor/npy.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  std::vector<std::string> files;
  for (ElemType elem : {ElemType::f32, ElemType::i8, ElemType::f64, ElemType::boolean}) {
    files.push_back(format_npy(HostArray("A", elem, {2, 3})));
  }
  std::string header = "{\"shape\":(6,),'fortran_order':True,'descr':'<f4'}";
  files.push_back(std::string("\x93NUMPY\2\0", 8) + static_cast<char>(header.size()) +
                  std::string(3, '\0') + header + std::string(24, 'x'));
  return files;
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    NpyArray array = parse_npy(fuzz::text_of(data, size), "fuzz.npy");
    double sum = 0;
    for (int64_t i = 0; i < array.count(); ++i) sum += array.get(i);
    fuzz::require(array.count() >= 0, "an array has a negative number of elements");
    static_cast<void>(sum);
  } catch (const FileError&) {
  }
  return 0;
}
