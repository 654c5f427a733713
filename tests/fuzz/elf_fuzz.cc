// The checker of shared objects that guards loading.
#include "runtime/compile/compile.h"
#include "runtime/load/elf_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  KernelSource source;
  source.code =
      "#include <math.h>\n#include <stdint.h>\n"
      "int32_t kernel(void* const* args, const int64_t* dims, const void* context) {\n"
      "  ((float*)args[0])[0] = expf(((float*)args[1])[0]);\n  return 0;\n}\n";
  CompileOptions options;
  options.use_cache = false;
  return {compile(source, options).object};
}

}  // namespace tilewright::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view object = tilewright::fuzz::text_of(data, size);
  for (auto kind : {tilewright::ObjectKind::Kernel, tilewright::ObjectKind::Emulation}) {
    tilewright::object_problem(object, kind);
  }
  return 0;
}
