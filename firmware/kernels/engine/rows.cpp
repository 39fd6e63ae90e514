// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/rows.hpp"

#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/splat.hpp"

namespace kernel::engine {
namespace {

// Of one request. An operand's pages are missing one after the other, and each is there once it has been touched.
constexpr unsigned kTries = 32;
static_assert(kMaxRowInputs <= wire::array::kMaxInputs);

}  // namespace

RowWalk::RowWalk(const Work& work, unsigned inputs)
    : work_(work),
      inputs_(inputs),
      item_(program::item_bytes(work.output().format)),
      nest_(work, StickUnits(work.output()).elements) {
  const std::uint8_t stick_dim = work.output().stick_dim;
  for (unsigned i = 0; i < inputs; ++i) {
    const Operand& input = work.operation.operand[i];
    if (program::item_bytes(input.format) != item_) {
      refusal_ = work.refuse(Where::Format, i);
    } else if (input.stick_dim == stick_dim && stick_dim != program::kNoDimension) {
      continue;
    } else if (input.stick_dim != program::kNoDimension && work.operation.extent[input.stick_dim] > 1) {
      refusal_ = work.refuse(Where::Unsupported, i);  // lanes that lie elsewhere in the output
    } else if (stick_dim != program::kNoDimension && (input.present >> stick_dim & 1) != 0) {
      if (work.operation.extent[stick_dim] > 1) refusal_ = work.refuse(Where::Unsupported, i);
    }
    single_[i] = true;
    any_single_ = true;
  }
}

void RowWalk::take(const Run& run, std::uint64_t done, Rows& rows) const {
  const unsigned output = work_.operation.operand_count - 1u;
  rows.out = reinterpret_cast<std::byte*>(run.address[output] + done * run.step[output]);
  rows.out_step = run.step[output];
  rows.count = run.count - done;
  for (unsigned i = 0; i < inputs_; ++i) {
    rows.in[i] = reinterpret_cast<const std::byte*>(run.address[i] + done * run.step[i]);
    rows.in_step[i] = run.step[i];
    rows.single[i] = single_[i];
  }
}

std::uint64_t RowWalk::give_to_array(const Run& run) {
  wire::array::Request& request = *work_.array;
  const Operation& operation = work_.operation;
  request.kind = wire::array::Kind::Rows;
  request.opcode = static_cast<std::uint32_t>(operation.opcode);
  request.format = static_cast<std::uint32_t>(work_.output().format);
  request.inputs = inputs_;
  request.singles = 0;
  for (unsigned i = 0; i < inputs_; ++i) request.singles |= std::uint32_t{single_[i]} << i;
  for (unsigned i = 0; i < 2; ++i) {
    const bool is_code = operation.opcode == Opcode::Clip;
    request.constant[i] =
        is_code ? number::code_of_fp32(work_.output().format, operation.constant[i]) : operation.constant[i];
  }
  const bool has_table = operation.operand_count > inputs_ + 1;  // of a function, behind its input
  request.table = has_table ? work_.address(operation.operand[inputs_]) : 0;
  std::uint64_t done = 0;
  for (unsigned tries = 0; done < run.count && tries < kTries; ++tries) {
    request.count = run.count - done;
    for (unsigned i = 0; i < inputs_; ++i) request.row[i] = {run.address[i] + done * run.step[i], run.step[i]};
    const unsigned output = operation.operand_count - 1u;
    request.row[wire::array::kOutput] = {run.address[output] + done * run.step[output], run.step[output]};
    switch (ask_array(request)) {
      case wire::array::Outcome::Done:
        done += request.done;
        tries = 0;
        break;
      case wire::array::Outcome::Missing: touch(request); break;
      default: array_refused_ = true; return done;
    }
  }
  return done;
}

void RowWalk::make_sticks(const Run& run, Rows& rows) {
  auto& buffers = reinterpret_cast<Buffers&>(work_.working);
  for (unsigned i = 0; i < inputs_; ++i) {
    if (single_[i] && run.step[i] != 0) rows.count = std::min<std::uint64_t>(rows.count, kSticks);
  }
  for (unsigned i = 0; i < inputs_; ++i) {
    if (!single_[i]) continue;
    const bool moves = run.step[i] != 0;
    splat(rows.in[i], run.step[i], buffers.stick[i][0], moves ? rows.count : 1, item_);
    rows.in[i] = buffers.stick[i][0];
    if (moves) rows.in_step[i] = wire::kStickBytes;
  }
}

}  // namespace kernel::engine
