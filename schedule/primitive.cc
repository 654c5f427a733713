#include "schedule/primitive.h"

#include "base/error.h"
#include "schedule/primitives/blocks/cache.h"
#include "schedule/primitives/blocks/compute_at.h"
#include "schedule/primitives/blocks/deduplicate.h"
#include "schedule/primitives/blocks/inline.h"
#include "schedule/primitives/layout/layout.h"
#include "schedule/primitives/layout/pad_values.h"
#include "schedule/primitives/layout/reindex.h"
#include "schedule/primitives/layout/unit_index.h"
#include "schedule/primitives/loops/loop_kinds.h"
#include "schedule/primitives/loops/loops.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/loops/tensorize.h"
#include "schedule/primitives/softmax/online_softmax.h"
#include "schedule/primitives/softmax/split_softmax.h"
#include "schedule/primitives/softmax/store_rounded.h"
#include "schedule/primitives/weight/compress.h"
#include "schedule/primitives/weight/compress_operand.h"
#include "schedule/primitives/weight/convert_operand.h"
#include "schedule/primitives/weight/factor_scale.h"
#include "schedule/primitives/weight/pad_groups.h"
#include "schedule/primitives/weight/prepack.h"
#include "schedule/primitives/weight/store_halves.h"
#include "schedule/primitives/weight/unscale.h"
#include "schedule/primitives/weight/widen_operand.h"

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
