// Index files of sharded models.
#include "models/weights/shard_index.h"
#include "runtime/error.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {R"({"metadata": {"total_size": 12, "more": [[1], {"a": null}]},
              "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors"}, "note": "x"})",
          R"({"weight_map":{}})"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  try {
    for (const weights::ShardEntry& entry : weights::read_shard_index(text, "m.index.json")) {
      fuzz::require(entry.file.find('/') == std::string::npos && entry.file != "..",
                    "an index names a file outside of its folder");
      fuzz::require(entry.place <= size, "an entry lies behind the end of its index");
    }
  } catch (const FileError&) {
  }
  return 0;
}
