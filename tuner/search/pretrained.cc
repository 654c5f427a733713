#include "tuner/search/pretrained.h"

#include "tuner/features/features.h"
#include "tuner/search/history.h"

// Embeds the model's file between labels. TILEWRIGHT_PRETRAINED is its path, set by the build.
asm(".pushsection .rodata\n"
    "tilewright_pretrained:\n"
    ".incbin \"" TILEWRIGHT_PRETRAINED
    "\"\n"
    "tilewright_pretrained_end:\n"
    ".byte 0\n"
    ".popsection\n"
    ".global tilewright_pretrained, tilewright_pretrained_end\n");

extern "C" {
extern const std::byte tilewright_pretrained[];
extern const std::byte tilewright_pretrained_end[];
}

namespace tilewright {

std::vector<std::byte> pretrained_model() {
  return {tilewright_pretrained, tilewright_pretrained_end};
}

CostModel train_on(const database::Store& store, const std::string& target_hash,
                   const TrainingOptions& options, int64_t* samples) {
  std::vector<Sample> known =
      stored_samples(store, target_hash, options.feature_version, options.without);
  *samples = static_cast<int64_t>(known.size());
  CostModel model({.threads = options.threads});
  if (known.empty()) return model;
  if (!options.base.empty()) model.load(options.base);
  model.train_further(known);
  return model;
}

void store_model(database::Store& store, const std::string& target_hash, const CostModel& model,
                 int64_t samples, int feature_version) {
  database::Model m;
  m.target_hash = target_hash;
  m.kind = "xgboost";
  m.feature_version = feature_version;
  m.bytes = model.save();
  m.trained_on = samples;
  store.put_model(m);
}

}  // namespace tilewright
