// Evaluates requests, one JSON object a line of standard input, with another evaluator of policies.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'

for await (const line of createInterface({ input: process.stdin })) {
  const { access, owner, own, queue } = JSON.parse(line)
  const answer = await runSimulation(
    {
      request: {
        principal: access.user,
        action: access.action,
        resource: { resource: access.resource, accountId: owner },
        contextVariables: access.context,
      },
      identityPolicies: own ? [{ name: 'own', policy: own }] : [],
      serviceControlPolicies: [],
      resourceControlPolicies: [],
      ...(queue ? { resourcePolicy: queue } : {}),
    },
    {},
  )
  console.log(JSON.stringify(answer.resultType === 'error' ? answer.errors : answer.overallResult))
}
