// SPDX-License-Identifier: Apache-2.0
// The API of spyre-vp, all of it: C++20, namespace spyre, link with libspyre.so (CMake: find_package(spyre), target
// spyre::spyre; pkg-config: spyre). docs/install.md has a program to start from.
//
//   auto context = spyre::Context::open();                             a card, booted or attached
//   auto a = context->to_device({shape, bytes});                       host array → tensor on the card
//   spyre::ExecutionPlan plan;                                         jobs, in order
//   plan.add(spyre::Job(spyre::CompiledKernel(context->kernel("matmul"), {{"M", 64}, {"N", 64}, {"K", 64}})));
//   context->load(plan);
//   auto stream = context->default_stream();
//   spyre::LaunchKernel(stream, plan, std::array{a, b, c});            asynchronous
//   stream.Synchronize();                                              throws the first error, typed
//
// Everything is in the inline namespace v0. Every failure is a spyre::Error (spyre/error.hpp).
#pragma once

#include <spyre/allocator.hpp>
#include <spyre/context.hpp>
#include <spyre/data_type.hpp>
#include <spyre/devices.hpp>
#include <spyre/error.hpp>
#include <spyre/event.hpp>
#include <spyre/host_copy.hpp>
#include <spyre/host_memory.hpp>
#include <spyre/job.hpp>
#include <spyre/kernel.hpp>
#include <spyre/ops.hpp>
#include <spyre/options.hpp>
#include <spyre/outcome.hpp>
#include <spyre/prepared.hpp>
#include <spyre/raw_storage.hpp>
#include <spyre/recovery.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>
#include <spyre/tensor_layout.hpp>
#include <spyre/version.hpp>
