// SPDX-License-Identifier: Apache-2.0
// What a bundle of torch-spyre means, byte by byte: an interpreter of its executions that shares the parsers with the
// compiler and nothing else. Written to be read; slow. Each element is found by the formula of the SDSC, core by core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "host_driver/compiler/bundle.hpp"

namespace test {

// What is known of a byte.
enum class ByteState : std::uint8_t {
  Untouched,    // nothing was written there
  Defined,      // written
  Unspecified,  // written with a value that the operation leaves open: lanes beside lane 0 of a stick's reduction
};

struct ReferenceMemory {
  explicit ReferenceMemory(std::size_t size = 0) : bytes(size), states(size, ByteState::Untouched), most(size) {}
  std::vector<std::byte> bytes;
  std::vector<ByteState> states;
  std::size_t most;  // a scratchpad grows up to it, with what is written
};

// An operation that the reference does not know, or an access outside of what there is.
struct NoReference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The scratchpads of the cores: what bundles leave there for the next one.
class ReferenceScratchpads {
 public:
  ReferenceScratchpads();
  std::vector<ReferenceMemory> of_core;
};

// `arguments`: their contents before the bundle runs. `lengths`: bytes of each one's tensor; empty: only the bundle
// says what it can. Returns the contents afterwards. Throws NoReference.
std::vector<ReferenceMemory> run_reference(const svp::compiler::Bundle& bundle,
                                           const std::vector<std::vector<std::byte>>& arguments,
                                           const std::vector<std::uint64_t>& lengths = {});
std::vector<ReferenceMemory> run_reference(const svp::compiler::Bundle& bundle,
                                           const std::vector<std::vector<std::byte>>& arguments,
                                           ReferenceScratchpads& scratchpads,
                                           const std::vector<std::uint64_t>& lengths = {});

}  // namespace test
