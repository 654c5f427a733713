#include "tuner/pretrained.h"

#include "tuner/features.h"
#include "tuner/history.h"

// The file as it is, between two labels. TILEWRIGHT_PRETRAINED is its path, set by the build.
asm(".pushsection .rodata\n"
    ".global tilewright_pretrained_begin\n"
    "tilewright_pretrained_begin:\n"
    ".incbin \"" TILEWRIGHT_PRETRAINED
    "\"\n"
    ".global tilewright_pretrained_end\n"
    "tilewright_pretrained_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const std::byte tilewright_pretrained_begin[];
extern const std::byte tilewright_pretrained_end[];
}

namespace tilewright {

std::vector<std::byte> pretrained_model() {
  return {tilewright_pretrained_begin, tilewright_pretrained_end};
}

CostModel train_on(const database::Store& store, const std::string& target_hash,
                   const TrainingOptions& options, int64_t* samples) {
  std::vector<Sample> known = stored_samples(store, target_hash, options.without);
  *samples = static_cast<int64_t>(known.size());
  CostModel model({.threads = options.threads});
  if (known.empty()) return model;
  if (!options.from_nothing) model.load(pretrained_model());
  model.train_further(known);
  return model;
}

void store_model(database::Store& store, const std::string& target_hash, const CostModel& model,
                 int64_t samples) {
  database::Model m;
  m.target_hash = target_hash;
  m.kind = "xgboost";
  m.feature_version = kFeatureVersion;
  m.bytes = model.save();
  m.trained_on = samples;
  store.put_model(m);
}

}  // namespace tilewright
