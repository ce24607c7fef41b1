// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/gantt_svg.hpp>

#include "chosen.hpp"
#include "place.hpp"

std::string plan_report() {
  return std::string(model::name) + " under " + std::string(plan::name) + "\n\n" + place::describe<model, plan>();
}

std::string schedule_picture() {
  return heddle::schedules::gantt_svg<plan::schedule, heddle::ledger<model, plan>::stages, plan::micro_batches>(
      heddle::schedule_name<plan::schedule>());
}
