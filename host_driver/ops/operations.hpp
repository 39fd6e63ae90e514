// SPDX-License-Identifier: Apache-2.0
// svp::Operations: what stands behind spyre::ops (spyre/ops.hpp). Makes the program of an operation the first time that
// it meets these forms, keeps it on the card, and launches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/ops/lowering.hpp"

namespace svp {

struct OperationOptions {
  std::optional<SpyreStream> stream{};  // empty: the default stream
  std::optional<SpyreTensor> out{};
  std::uint64_t core_mask = 0;
  bool allow_copies = true;  // false: CopyNeeded in place of a copy
};

// Of one context, which outlives it. Thread-safe.
class Operations {
 public:
  explicit Operations(Context& context) : context_(context) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Programs that are kept; the one that was not used for the longest time goes first.
  static constexpr std::size_t kKeptPrograms = 1024;

  // What it promises is written at spyre::ops::run. Results in the order of Lowered::outputs.
  std::vector<SpyreTensor> run(ops::Op op, std::span<const SpyreTensor> inputs, std::span<const double> scalars = {},
                               std::span<const std::int64_t> integers = {}, const OperationOptions& options = {});

  std::size_t programs() const;  // kept now

 private:
  // A program, ready to be launched.
  struct Program;
  using Key = std::vector<std::int64_t>;

  std::shared_ptr<Program> program_for(const ops::Request& request);
  std::shared_ptr<Program> found(const Key& key);
  std::shared_ptr<const ExecutionPlan> loaded_plan(Program& program);
  void launch(Program& program, std::span<const SpyreTensor> tensors, const OperationOptions& options);
  SpyreTensor walkable(const SpyreTensor& tensor, std::size_t input, SpyreStream stream, bool allow_copies);
  // Options::out is a view that the card can not write: the result is made elsewhere, and copied.
  void run_elsewhere(ops::Op op, std::span<const SpyreTensor> inputs, std::span<const double> scalars,
                     std::span<const std::int64_t> integers, const OperationOptions& options, SpyreStream stream);

  Context& context_;
  mutable std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<Program>>> programs_;  // the last used is the first
  std::map<Key, std::list<std::pair<Key, std::shared_ptr<Program>>>::iterator> by_key_;
};

}  // namespace svp
