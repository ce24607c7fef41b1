// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vocabulary of communication, for code that is written over any communicator. A backend adds its own header, such
// as comm/threads.hpp.
#include <heddle/comm/communicator_concepts.hpp>
#include <heddle/comm/counters.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/errors.hpp>
#include <heddle/comm/gather_part.hpp>
#include <heddle/comm/operation.hpp>
#include <heddle/comm/pieces.hpp>
#include <heddle/comm/reduction.hpp>
#include <heddle/comm/traffic.hpp>
