// SPDX-License-Identifier: Apache-2.0
// Writes device programs (shared/device_program.hpp) operation by operation. Knows the format and how tensors lie, and
// nothing of what the operations compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/program/program_parts.hpp"
#include "host_driver/tensor/stick_access.hpp"
#include "shared/device_program.hpp"

namespace svp::ops {

namespace program = wire::program;

// What a program depends on of a tensor: everything but its memory.
struct TensorForm {
  HostShape base;  // as it was allocated
  SpyreTensorLayout layout;
  DeviceView view;

  // Row-major, all of it. `dim_order`: SpyreTensorLayout::of.
  static TensorForm dense(DataType dtype, std::vector<std::int64_t> size, DeviceType device_dtype,
                          std::optional<std::vector<std::int64_t>> dim_order = std::nullopt);

  const std::vector<std::int64_t>& size() const { return view.size; }
  bool has_elements() const;
  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};

// A tensor inside of a program: an argument, a view of one, memory of the pool, or a constant.
struct Value {
  program::Base base = program::Base::None;
  std::uint8_t argument = 0;
  std::uint64_t offset = 0;  // bytes, of the whole tensor
  TensorForm form;
  StickAccess access;  // of the view

  const std::vector<std::int64_t>& size() const { return form.view.size; }
  std::size_t rank() const { return form.view.size.size(); }
  program::Format format() const { return static_cast<program::Format>(form.layout.device_dtype); }
  std::optional<std::size_t> stick() const { return access.stick; }
  // The same memory seen differently. Throw as tensor_view.hpp, and CopyNeeded where sticks do not allow it.
  Value seen_as(const DeviceView& view) const;
};

inline constexpr int kAbsent = -1;

// An operand of an operation: which dimension of the value each dimension of the iteration space is.
struct Use {
  const Value* value;
  std::vector<int> dims;  // one entry per dimension of the iteration space; kAbsent: the value has it not
  // Dimensions of extent 1 that the operation wants named all the same: they move nothing.
  std::vector<std::size_t> named{};
  std::optional<std::size_t> named_stick{};
};
// The dimensions of the value are the last ones of the iteration space.
Use aligned(const Value& value, std::size_t rank);

struct MaskRange {
  std::size_t dimension;
  std::int64_t start;
  std::int64_t count;
};

struct OperationParts {
  program::Opcode opcode;
  std::vector<std::int64_t> extent;
  std::vector<Use> operands;  // the output is the last one
  std::optional<std::size_t> reduced{};
  std::vector<MaskRange> masks{};
  float mask_value = 0;
  std::vector<float> constants{};
  std::uint64_t page = 0;
};

class ProgramWriter {
 public:
  // Throws CopyNeeded for a view that no strides describe; for one that is written also when it shares sticks with
  // other elements of its tensor. A tensor without elements is none of the program's arguments.
  Value argument(const TensorForm& form, program::Access access);
  // Undefined contents, one launch's own. Throws InvalidArgument ("shape"): more than a program may have.
  Value pool(const TensorForm& form);
  // One element, for every dimension that an operation has. Throws InvalidArgument ("number") when it is beyond DL16.
  Value scalar(DataType dtype, DeviceType device_dtype, double value);
  // The table of a function on DL16, 65 536 entries: of those that stand once on the card, and one of the program's
  // own.
  Value table(program::Opcode function);
  Value table(std::span<const std::uint16_t> entries);
  // Any constant tensor, in device layout.
  Value data(TensorForm form, std::span<const std::byte> bytes);

  // Nothing where an extent is 0: there is no element to compute.
  void emit(const OperationParts& parts);

  std::size_t operations() const { return parts_.operations.size(); }
  std::size_t arguments() const { return parts_.arguments.size(); }
  // The whole program.
  std::vector<std::byte> finish() const { return assemble(parts_); }

 private:
  ProgramParts parts_;
};

}  // namespace svp::ops
