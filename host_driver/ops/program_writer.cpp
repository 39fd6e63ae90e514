// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/program_writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/base/error.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

[[noreturn]] void refuse_view(const TensorForm& form, const char* why) {
  throw CopyNeeded("tensor", "the view " + to_string(form.view.size) + " " + why,
                   "copy it into a tensor of its own: Context::contiguous()");
}

StickAccess access_of(const TensorForm& form) {
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

template <typename T>
void append(std::vector<std::byte>& to, const std::vector<T>& from) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(from));
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(wire::align_up(to.size(), wire::kStickBytes));
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
  if (written && !value.access.whole_sticks) refuse_view(form, "shares sticks with other elements and is written");
  if (arguments_.size() == program::kMaxArguments) {
    throw InvalidArgument("tensors", "an operation with more than 30 tensors", "do it in several operations");
  }
  value.argument = static_cast<std::uint8_t>(arguments_.size());
  arguments_.push_back({.bytes = form.layout.device_bytes(), .access = access, .reserved = 0});
  return value;
}

Value ProgramWriter::pool(const TensorForm& form) {
  Value value{
      .base = program::Base::Pool, .argument = 0, .offset = pool_bytes_, .form = form, .access = access_of(form)};
  pool_bytes_ += form.layout.device_bytes();
  return value;
}

Value ProgramWriter::data(TensorForm form, std::span<const std::byte> bytes) {
  Value value{
      .base = program::Base::Data, .argument = 0, .offset = data_.size(), .form = std::move(form), .access = {}};
  value.access = access_of(value.form);
  data_.insert(data_.end(), bytes.begin(), bytes.end());
  data_.resize(wire::align_up(data_.size(), wire::kStickBytes));
  return value;
}

Value ProgramWriter::scalar(DataType dtype, DeviceType device_dtype, double value) {
  std::uint32_t bits = wire::dl16_from_fp64(value);
  if (device_dtype == DeviceType::Fp32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (device_dtype != DeviceType::Fp32 && device_dtype != DeviceType::Dl16) {
    throw InvalidArgument("dtype", "a constant of type " + std::string(name(device_dtype)),
                          "operations take constants of DL16 and FP32");
  }
  return data(TensorForm::dense(dtype, {}, device_dtype), std::as_bytes(std::span(&bits, 1)));
}

Value ProgramWriter::table(std::span<const std::uint16_t> entries) {
  return data(TensorForm::dense(DataType::Float16, {}, DeviceType::Dl16), std::as_bytes(entries));
}

void ProgramWriter::emit(const OperationParts& parts) {
  const std::size_t rank = parts.extent.size();
  if (rank > program::kMaxRank || parts.operands.size() > program::kMaxOperands ||
      parts.masks.size() > program::kMaxMasks) {
    throw InvalidArgument("shape", "an operation over " + std::to_string(rank) + " dimensions",
                          "use at most " + std::to_string(program::kMaxRank));
  }
  if (operations_.size() == program::kMaxOperations) {
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
  operations_.push_back(operation);
}

std::vector<std::byte> ProgramWriter::finish() {
  program::Header header{};
  header.magic = program::kMagic;
  header.version = program::kVersion;
  header.argument_count = static_cast<std::uint32_t>(arguments_.size());
  header.operation_count = static_cast<std::uint32_t>(operations_.size());
  header.pool_bytes = pool_bytes_;
  std::vector<std::byte> bytes(sizeof header);
  header.arguments_offset = bytes.size();
  append(bytes, arguments_);
  header.operations_offset = bytes.size();
  append(bytes, operations_);
  header.data_offset = bytes.size();
  header.data_bytes = data_.size();
  append(bytes, data_);
  header.program_bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  header.crc32c = crc32c(0, bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace svp::ops
