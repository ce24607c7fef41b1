// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "models.hpp"
#include "plans.hpp"

// The one model and plan of this program: HEDDLE_MODEL and HEDDLE_PLAN are names of models.hpp and plans.hpp.
using model = models::HEDDLE_MODEL;
using plan = plans::HEDDLE_PLAN;

/// The plan's constants as text, and its pipeline as a picture: apart from the train step, so that the two compile side
/// by side.
std::string plan_report();
std::string schedule_picture();
