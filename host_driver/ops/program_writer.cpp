// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/program_writer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/base/number_text.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

[[noreturn]] void refuse_view(const TensorForm& form, const char* why) {
  throw CopyNeeded("tensor", "the view " + to_string(form.view.size) + " " + why,
                   "copy it into a tensor of its own: Context::contiguous()");
}

// Dimensions are where those of a tensor in default layout are; nothing is ever accessed.
StickAccess access_of_nothing(const TensorForm& form) {
  StickAccess access;
  access.stride.resize(form.view.size.size());
  for (const std::int64_t extent : form.view.size) access.present.push_back(extent != 1);
  if (form.view.size.back() != 1) access.stick = form.view.size.size() - 1;
  access.whole_sticks = true;
  return access;
}

StickAccess access_of(const TensorForm& form) {
  if (!form.has_elements()) return access_of_nothing(form);
  auto access = stick_access(form.base, form.layout, form.view);
  if (!access) refuse_view(form, "begins inside of a stick, or steps as no strides of sticks do");
  return *std::move(access);
}

std::uint32_t narrow_extent(std::int64_t extent) {
  if (extent < 1 || extent > INT32_MAX) {
    throw InvalidArgument("shape", "an extent of " + std::to_string(extent) + " in an operation",
                          "give extents from 1 to 2^31 - 1");
  }
  return static_cast<std::uint32_t>(extent);
}

program::Operand operand_of(const Use& use, std::size_t rank) {
  const Value& value = *use.value;
  program::Operand operand{};
  operand.base = value.base;
  operand.format = value.format();
  operand.argument = value.argument;
  operand.stick_dim = program::kNoDimension;
  operand.offset = value.offset + value.access.offset;
  std::ranges::fill(operand.split, std::uint8_t{1});
  for (std::size_t d = 0; d < rank; ++d) {
    if (use.dims[d] == kAbsent) continue;
    const auto from = static_cast<std::size_t>(use.dims[d]);
    if (!value.access.present[from]) continue;
    operand.present = static_cast<std::uint8_t>(operand.present | 1U << d);
    operand.stride[d] = value.access.stride[from];
    if (value.access.stick == from) operand.stick_dim = static_cast<std::uint8_t>(d);
  }
  for (const std::size_t d : use.named) operand.present = static_cast<std::uint8_t>(operand.present | 1U << d);
  if (use.named_stick && operand.stick_dim == program::kNoDimension) {
    operand.stick_dim = static_cast<std::uint8_t>(*use.named_stick);
  }
  return operand;
}

}  // namespace

TensorForm TensorForm::dense(DataType dtype, std::vector<std::int64_t> size, DeviceType device_dtype,
                             std::optional<std::vector<std::int64_t>> dim_order) {
  TensorForm form;
  form.base = HostShape::contiguous(dtype, std::move(size));
  form.layout = SpyreTensorLayout::of(form.base, std::move(dim_order), device_dtype);
  form.view = DeviceView::whole(form.base);
  return form;
}

bool TensorForm::has_elements() const { return element_count(view) != 0; }

Value Value::seen_as(const DeviceView& view) const {
  Value other = *this;
  other.form.view = view;
  other.access = access_of(other.form);
  return other;
}

Use aligned(const Value& value, std::size_t rank) {
  Use use{&value, std::vector<int>(rank, kAbsent)};
  const std::size_t first = rank - value.rank();
  for (std::size_t d = 0; d < value.rank(); ++d) use.dims[first + d] = static_cast<int>(d);
  return use;
}

Value ProgramWriter::argument(const TensorForm& form, program::Access access) {
  Value value{.base = program::Base::Argument, .argument = 0, .offset = 0, .form = form, .access = access_of(form)};
  const bool written = (static_cast<std::uint32_t>(access) & static_cast<std::uint32_t>(program::Access::Write)) != 0;
  if (!form.has_elements()) {
    value.base = program::Base::None;
    return value;
  }
  if (written && !value.access.whole_sticks) refuse_view(form, "shares sticks with other elements and is written");
  if (parts_.arguments.size() == program::kMaxArguments) {
    throw InvalidArgument("tensors",
                          "an operation with more than " + std::to_string(program::kMaxArguments) + " tensors",
                          "do it in several operations");
  }
  value.argument = static_cast<std::uint8_t>(parts_.arguments.size());
  parts_.arguments.push_back({.bytes = form.layout.device_bytes(), .access = access, .reserved = 0});
  return value;
}

Value ProgramWriter::pool(const TensorForm& form) {
  Value value{
      .base = program::Base::Pool, .argument = 0, .offset = parts_.pool_bytes, .form = form, .access = access_of(form)};
  parts_.pool_bytes += form.layout.device_bytes();
  if (parts_.pool_bytes > program::kMaxPoolBytes) {
    throw InvalidArgument("shape",
                          "an operation that needs more than " + std::to_string(program::kMaxPoolBytes) +
                              " bytes for what lies between its steps",
                          "compute parts of the tensors one after the other");
  }
  return value;
}

Value ProgramWriter::data(TensorForm form, std::span<const std::byte> bytes) {
  Value value{
      .base = program::Base::Data, .argument = 0, .offset = parts_.data.size(), .form = std::move(form), .access = {}};
  value.access = access_of(value.form);
  parts_.add_data(bytes);
  return value;
}

Value ProgramWriter::scalar(DataType dtype, DeviceType device_dtype, double value) {
  std::uint32_t bits = wire::dl16_from_fp64(value);
  if (device_dtype == DeviceType::Fp32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (device_dtype != DeviceType::Fp32 && device_dtype != DeviceType::Dl16) {
    throw InvalidArgument("dtype", "a constant of type " + std::string(name(device_dtype)),
                          "operations take constants of DL16 and FP32");
  }
  if (device_dtype == DeviceType::Dl16 && std::isfinite(value) &&
      wire::dl16_is_infinite(static_cast<wire::Dl16>(bits))) {
    throw InvalidArgument("number", "the number " + svp::text_of(value) + ", which DL16 has not",
                          "give numbers up to 8564768768, or tensors that are FP32 on the card");
  }
  return data(TensorForm::dense(dtype, {}, device_dtype), std::as_bytes(std::span(&bits, 1)));
}

Value ProgramWriter::table(program::Opcode function) {
  Value value{.base = program::Base::Tables,
              .argument = 0,
              .offset = program::table_offset(function),
              .form = TensorForm::dense(DataType::Float16, {}, DeviceType::Dl16),
              .access = {}};
  value.access = access_of(value.form);
  parts_.flags |= program::kFunctionTables;
  return value;
}

Value ProgramWriter::table(std::span<const std::uint16_t> entries) {
  return data(TensorForm::dense(DataType::Float16, {}, DeviceType::Dl16), std::as_bytes(entries));
}

// An operation has one dimension at least: that of a scalar has one position.
void ProgramWriter::emit(const OperationParts& parts) {
  if (parts.extent.empty()) {
    OperationParts line = parts;
    line.extent = {1};
    for (Use& use : line.operands) use.dims = {kAbsent};
    return emit(line);
  }
  if (std::ranges::find(parts.extent, 0) != parts.extent.end()) return;
  const std::size_t rank = parts.extent.size();
  if (rank > program::kMaxRank || parts.operands.size() > program::kMaxOperands ||
      parts.masks.size() > program::kMaxMasks) {
    throw InvalidArgument("shape", "an operation over " + std::to_string(rank) + " dimensions",
                          "use at most " + std::to_string(program::kMaxRank));
  }
  if (parts_.operations.size() == program::kMaxOperations) {
    throw InvalidArgument("shape", "a program of more than " + std::to_string(program::kMaxOperations) + " operations",
                          "compute parts of the tensors one after the other");
  }
  program::Operation operation{};
  operation.opcode = parts.opcode;
  operation.rank = static_cast<std::uint8_t>(rank);
  operation.operand_count = static_cast<std::uint8_t>(parts.operands.size());
  if (parts.reduced) operation.reduced = static_cast<std::uint8_t>(1U << *parts.reduced);
  operation.mask_count = static_cast<std::uint8_t>(parts.masks.size());
  std::ranges::transform(parts.extent, operation.extent, narrow_extent);
  for (std::size_t i = 0; i < parts.masks.size(); ++i) {
    operation.mask[i] = {static_cast<std::uint32_t>(parts.masks[i].dimension),
                         static_cast<std::uint32_t>(parts.masks[i].start), narrow_extent(parts.masks[i].count)};
  }
  operation.mask_value = std::bit_cast<std::uint32_t>(parts.mask_value);
  std::ranges::transform(parts.constants, operation.constant, [](float c) { return std::bit_cast<std::uint32_t>(c); });
  operation.page = parts.page;
  for (std::size_t i = 0; i < parts.operands.size(); ++i) operation.operand[i] = operand_of(parts.operands[i], rank);
  parts_.operations.push_back(operation);
}

}  // namespace svp::ops
