#include "schedule/primitive.h"

#include "ir/error.h"
#include "schedule/primitives/cache.h"
#include "schedule/primitives/compress.h"
#include "schedule/primitives/compress_operand.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/convert_operand.h"
#include "schedule/primitives/deduplicate.h"
#include "schedule/primitives/factor_scale.h"
#include "schedule/primitives/inline.h"
#include "schedule/primitives/layout.h"
#include "schedule/primitives/loop_kinds.h"
#include "schedule/primitives/loops.h"
#include "schedule/primitives/online_softmax.h"
#include "schedule/primitives/pad_groups.h"
#include "schedule/primitives/pad_values.h"
#include "schedule/primitives/prepack.h"
#include "schedule/primitives/reduction.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/split_softmax.h"
#include "schedule/primitives/store_halves.h"
#include "schedule/primitives/store_rounded.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/unit_index.h"
#include "schedule/primitives/unscale.h"
#include "schedule/primitives/widen_operand.h"

namespace tilewright {
namespace {

using Table = std::map<std::string, ApplyFn, std::less<>>;

Table make_table() {
  const std::vector<std::vector<PrimitiveEntry>> families = {
      loop_primitives(),
      loop_kind_primitives(),
      reduction_primitives(),
      // One line a family.
      compute_at_primitives(),
      inline_primitives(),
      cache_primitives(),
      layout_primitives(),
      prepack_primitives(),
      compress_primitives(),
      compress_operand_primitives(),
      tensorize_primitives(),
      convert_operand_primitives(),
      widen_operand_primitives(),
      factor_scale_primitives(),
      pad_groups_primitives(),
      pad_values_primitives(),
      reindex_primitives(),
      unscale_primitives(),
      store_halves_primitives(),
      store_rounded_primitives(),
      deduplicate_primitives(),
      online_softmax_primitives(),
      split_softmax_primitives(),
      unit_index_primitives(),
  };
  Table table;
  for (const std::vector<PrimitiveEntry>& family : families) {
    for (const PrimitiveEntry& entry : family) {
      bool added = table.emplace(entry.name, entry.apply).second;
      TW_ASSERT(added, "two primitives of one name");
    }
  }
  return table;
}

}  // namespace

const std::map<std::string, ApplyFn, std::less<>>& primitive_table() {
  static const Table table = make_table();
  return table;
}

}  // namespace tilewright
