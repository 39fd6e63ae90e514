// SPDX-License-Identifier: Apache-2.0
// From SDSCs to operations on tensors: one function for each family of operations makes opcodes, strides and loops of
// what sdsc.hpp holds. What each operation means, in other words: tests/support/bundle_reference.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/compiler/argument_lengths.hpp"
#include "host_driver/compiler/bundle.hpp"
#include "host_driver/compiler/layout.hpp"
#include "host_driver/compiler/tensor_program.hpp"

namespace svp::compiler {

// The program that is made. Results over inputs that an operation may not overwrite go through a temporary.
class ProgramBuilder {
 public:
  // `lengths`: as CompileOptions. `pool_bytes`: the bundle's own, whole sticks; temporaries lie behind them.
  ProgramBuilder(const Bundle& bundle, const std::vector<std::uint64_t>& lengths, std::uint64_t pool_bytes);

  // The line of bundle.mlir that what comes next is made for.
  void at_line(unsigned line) { line_ = line; }
  void begin_loop(std::uint32_t count, unsigned line);
  void end_loop(unsigned line);
  void emit(TensorOp op);
  // Memory behind the bundle's own pool, dense in the order of the dimensions that are present, the first one fastest.
  TensorUse temporary(wire::program::Format format, const std::vector<std::uint32_t>& extent,
                      const std::array<bool, kMaxRank>& present, unsigned stick);
  // The table of a function on DL16; one for each function and constants.
  TensorUse table(wire::program::Opcode function, const std::vector<float>& constants);
  // One element for all positions.
  TensorUse number(wire::program::Format format, float value);

  // Bytes of an argument, and that the program takes so many; empty: only the launch knows.
  std::optional<std::uint64_t> length_of(std::uint32_t argument) const;
  void take(std::uint32_t argument, std::uint64_t bytes);
  // Whether the two reach one byte, in any iterations of the loops around what comes next.
  bool overlap(const TensorUse& a, const TensorUse& b, const std::vector<std::uint32_t>& extent) const;

  std::uint64_t own_pool_bytes() const { return own_pool_bytes_; }
  std::size_t loops() const { return loops_.size(); }
  const std::vector<std::uint32_t>& iterations() const { return loops_; }
  const TensorProgram& program() const { return program_; }

 private:
  bool must_not_overwrite(const TensorOp& op) const;
  void add(TensorOp op);

  const std::vector<std::uint64_t>& lengths_;
  const std::uint64_t own_pool_bytes_;
  TensorProgram program_;
  unsigned line_ = 0;
  std::vector<std::uint32_t> loops_;  // iterations of those around what comes next
  std::map<std::pair<wire::program::Opcode, std::vector<float>>, std::uint64_t> tables_;
};

// How an operation's tensor is read otherwise than its layout alone says.
struct UseRules {
  LayoutRules layout;
  const std::vector<std::array<std::uint32_t, kMostDimensions>>* owners = nullptr;  // null: as the work
  bool is_guess = false;  // a length that is not known decides: addresses of other cores say nothing of it yet
};

// One execution of an SDSC.
class ExecutionLowering {
 public:
  ExecutionLowering(ProgramBuilder& builder, const Sdsc& sdsc, const Execution& execution);

  void lower();

 private:
  // ---- operands (lowering_operands.cpp)
  TensorUse use(const SdscTensor& tensor, const UseRules& rules = {}) const;
  void place_in_scratchpads(const SdscTensor& tensor, const UseRules& rules, TensorUse& result) const;
  void place_in_memory(const SdscTensor& tensor, TensorUse& result) const;
  void check_cores(const SdscTensor& tensor, const Steps& steps) const;
  // ---- lengths that the launch knows (lowering_lengths.cpp)
  struct Length {
    std::uint32_t argument;
    std::uint64_t bytes;
  };
  std::optional<Length> length_of(const SdscTensor& tensor) const;
  // Its argument has a length, and nobody has said which.
  bool lacks_length(const SdscTensor& tensor) const;
  // Elements of a dimension in the tensor's memory when everything else is as the bundle says; 0: no whole number.
  std::uint64_t elements_in(const Length& length, const SdscTensor& tensor, std::uint8_t dimension) const;
  struct PaddedExtent {
    std::uint32_t allocated;
    std::uint32_t whole;  // of them exist
  };
  PaddedExtent padded_extent(const SdscTensor& tensor, std::uint8_t dimension) const;
  std::optional<std::uint32_t> short_extent(const SdscTensor& tensor, const SdscTensor& other) const;
  TensorOp clipped(wire::program::Opcode opcode) const;
  void take_rows(const SdscTensor& value, std::uint64_t page) const;
  // ---- families (lowering_operations.cpp, lowering_reductions.cpp)
  void lower_pointwise(wire::program::Opcode opcode);
  void lower_function(wire::program::Opcode opcode);
  void lower_copy();
  void lower_restickify();
  void lower_shuffle();
  void lower_indexed();
  void check_index(const SdscTensor& index, const TensorUse& read, unsigned stick) const;
  void lower_product(wire::program::Opcode opcode);
  void lower_conversion(wire::program::Opcode opcode);
  void lower_top_k(wire::program::Opcode opcode);
  void lower_normalisation();
  void lower_reduction();
  void lower_several_reductions(const std::vector<unsigned>& reduced);
  void copy_or_scale();
  // ---- windows (lowering_windows.cpp)
  void lower_windows();
  void lower_average_pool();
  void lower_convolution();
  void lower_depthwise_convolution();
  TensorUse windowed_elements() const;
  std::vector<std::uint32_t> windowed_extents() const;
  TensorUse through_window(TensorUse elements, const Window& window) const;
  TensorUse through_windows(TensorUse elements) const;
  TensorUse as_fp32(const TensorUse& from, const std::vector<std::uint32_t>& extent);
  TensorUse weight_matrix(unsigned channels, const std::vector<unsigned>& taps,
                          const std::vector<std::uint32_t>& product);
  std::vector<unsigned> taps_of_weight() const;
  unsigned divided_place(const TensorUse& output_use) const;
  // ---- parts of them
  void emit(wire::program::Opcode opcode, std::vector<TensorUse> operands);
  void emit(TensorOp op);
  std::vector<TensorUse> all_uses() const;
  const SdscTensor& input(unsigned number) const { return sdsc_.tensors[sdsc_.inputs[number]]; }
  const SdscTensor& output() const { return sdsc_.tensors[sdsc_.output]; }
  void expect_inputs(std::size_t count) const;
  float constant(const char* name, std::optional<float> otherwise = std::nullopt) const;
  std::vector<TensorMask> masks() const;
  void check_masks() const;
  unsigned place_of(std::uint8_t dimension) const;
  std::vector<std::uint32_t> extents() const;
  // Places of dimensions that the first tensor has and the second has not.
  std::vector<unsigned> only_in(const SdscTensor& first, const SdscTensor& second) const;
  unsigned one(const std::vector<unsigned>& places, const char* what) const;
  [[noreturn]] void refuse_here(const std::string& what) const;

  ProgramBuilder& builder_;
  const Sdsc& sdsc_;
  const Execution& execution_;
  std::uint32_t first_core_ = 0;     // the one that has slice 0 of everything
  std::vector<std::uint8_t> space_;  // dimensions of the SDSC that the operation's are
};

// Throws InvalidPlan: file, line or member, and what this compiler cannot express. `lengths`: as CompileOptions.
TensorProgram lower(const Bundle& bundle, const std::vector<std::uint64_t>& lengths = {});

}  // namespace svp::compiler
