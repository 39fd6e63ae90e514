// SPDX-License-Identifier: Apache-2.0
// The engine: executes a device program (shared/device_program.hpp) that lies in card memory. The symbols of a launch
// are the addresses of the program, of its arguments, and of the workspace when the program needs one. A refusal ends
// the launch with wire::program::to_status().
#include "firmware/kernels/engine/execution.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/launch.hpp"
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

// The metadata of a launch belongs to its program and is made by the host; the image itself only says that it reads a
// correction tensor of any size.
SPYRE_KERNEL({
    .name = "engine",
    .scratchpad_bytes = sizeof(kernel::engine::Memory),
    .operands = {{.name = "program", .access = kernel::Access::Read, .shape = {"sticks"}}},
    .symbols = {kernel::address_of(0)},
    .any_symbols = true,
});

extern "C" {
void correction_entry(const wire::KernelArguments* arguments);
void compute_entry(const wire::KernelArguments* arguments);
}

namespace {

kernel::engine::Memory& memory_of(const wire::KernelArguments& arguments) {
  return *reinterpret_cast<kernel::engine::Memory*>(arguments.scratchpad_address);
}

}  // namespace

void correction_entry(const wire::KernelArguments* arguments) {
  kernel::engine::read_correction(*arguments, memory_of(*arguments).launch);
  auto* const entry = reinterpret_cast<void (*)(const wire::KernelArguments*)>(arguments->compute_entry);
  [[clang::musttail]] return entry(arguments);
}

void compute_entry(const wire::KernelArguments* arguments) { kernel::exit(kernel::compute(*arguments)); }

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  enable_host_float();
  engine::Memory& memory = memory_of(arguments);
  engine::Execution execution(memory, arguments);
  const wire::program::Refusal refusal = execution.run();
  return refusal.ok() ? 0 : wire::program::to_status(refusal);
}

namespace kernel::engine {

Refusal dispatch(const Work& work) {
  switch (work.operation.opcode) {
    case Opcode::LoopBegin:
    case Opcode::LoopEnd: break;  // not for families

    case Opcode::Copy: return copy(work);
    case Opcode::Restickify: return restickify(work);

    case Opcode::Dl16ToFp32:
    case Opcode::Fp32ToDl16:
    case Opcode::Dl16ToFp8:
    case Opcode::Fp8ToDl16:
    case Opcode::Dl16ToFp8Weight: return stagger(work);

    case Opcode::Gather: return gather(work);
    case Opcode::Scatter: return scatter(work);

    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Div: return arithmetic(work);

    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::Equal:
    case Opcode::NotEqual:
    case Opcode::Greater:
    case Opcode::GreaterEqual:
    case Opcode::Less:
    case Opcode::LessEqual:
    case Opcode::Where: return comparison(work);

    case Opcode::Abs:
    case Opcode::Neg:
    case Opcode::Relu:
    case Opcode::Clip:
    case Opcode::Floor: return unary(work);

    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Sqrt:
    case Opcode::Rsqrt:
    case Opcode::Reciprocal:
    case Opcode::Sigmoid:
    case Opcode::Tanh:
    case Opcode::Silu:
    case Opcode::Gelu:
    case Opcode::Softplus: return function(work);

    case Opcode::Sum:
    case Opcode::Mean:
    case Opcode::Max:
    case Opcode::Min:
    case Opcode::Prod:
    case Opcode::Exx2: return reduction(work);
    case Opcode::LayerNormScale: return layer_norm_scale(work);
    case Opcode::LayerNormNorm: return layer_norm(work);

    case Opcode::MatMul: return matrix_product(work);
    case Opcode::MatMulFp8: return matrix_product_fp8(work);

    case Opcode::TopKValue:
    case Opcode::TopKIndex: return top_k(work);
  }
  return work.refuse(Where::Unsupported);
}

}  // namespace kernel::engine
