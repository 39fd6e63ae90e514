// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/product.hpp"

#include <bit>

namespace kernel::engine {

Roles roles_of(const Work& work, const Axes& axes) {
  Roles roles{.k = static_cast<unsigned>(std::countr_zero(work.operation.reduced)),
              .n = program::kMaxRank,
              .rows = {},
              .batches = {},
              .can_execute = true};
  const auto generated = [&](unsigned d) { return d != roles.k && axes.moves(kRight, d) && !axes.moves(kLeft, d); };
  if (work.output().stick_dim != program::kNoDimension) {
    roles.n = work.output().stick_dim;
    roles.can_execute = !axes.moves(kLeft, roles.n) && roles.n != roles.k;
  } else {
    for (unsigned d = 0; d < axes.rank(); ++d) {
      if (generated(d) && (roles.n == program::kMaxRank || axes.extent(d) > axes.extent(roles.n))) roles.n = d;
    }
  }
  for (unsigned d = 0; d < axes.rank(); ++d) {
    if (d == roles.k || d == roles.n || (work.output().present >> d & 1) == 0) continue;
    if (axes.moves(kRight, d)) {
      roles.batches.add(d, axes.extent(d));
    } else {
      roles.rows.add(d, axes.extent(d));
    }
  }
  return roles;
}

}  // namespace kernel::engine
