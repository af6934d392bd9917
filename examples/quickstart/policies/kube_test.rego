package rules.kube_test

import data.rules.kube

_run(text) := {"request": {"kind": "command", "command": {"shell": "bash", "text": text}}}

_production(text) if {
	some message in kube.ask with input as _run(text)
	contains(message, "production context")
}

_current(text) if {
	some message in kube.ask with input as _run(text)
	contains(message, "whatever cluster is current")
}

test_production_contexts_ask[text] if {
	some text in [
		"kubectl --context prod get pods",
		"kubectl --context=prod-eu delete pod x",
		"kubectl delete pod x --context eu-prod",
		"kubectl --context Production apply -f x.yaml",
		"kubectl --context prod-1.example.com get pods",
		"helm upgrade app chart --kube-context prod",
		"helm --kube-context=prod list",
		"oc --context=prod get pods",
		"kubectl config use-context prod",
		"kubectx prod",
		"k9s --context prod",
		"KUBECONFIG=x kubectl --context prod get pods",
		"sudo kubectl --context prod get pods",
		"bash -c 'kubectl --context prod delete ns x'",
		"kubectl --con'text' \"pro\"d get pods",
		"kubectl --context dev get pods && kubectl --context prod get pods",
		"echo x | xargs kubectl --context prod delete pod",
	]
	_production(text)
}

test_clusters_that_are_not_named_ask[text] if {
	some text in [
		"kubectl get pods",
		"kubectl apply -f x.yaml",
		"kubectl --context \"$CTX\" get pods",
		"kubectl --context dev --kubeconfig other get pods",
		"KUBECONFIG=other kubectl --context dev get pods",
		"helm upgrade app chart",
	]
	_current(text)
}

test_other_contexts_do_not_ask[text] if {
	some text in [
		"kubectl --context dev get pods",
		"kubectl --context=staging delete pod x",
		"kubectl --context product-catalog get pods",
		"helm --kube-context dev upgrade app chart",
		"kubectl config get-contexts",
		"kubectl --context dev -n prod get pods",
		"helm template chart",
		"kubectl --help",
		"echo kubectl --context prod get pods",
	]
	count(kube.ask) == 0 with input as _run(text)
}

test_the_list_of_contexts_is_data if {
	blue := ["blue"]
	said := kube.ask with input as _run("kubectl --context blue get pods") with data.rules.kube.production as blue
	said == {"kubectl is for blue, a production context"}
	count(kube.ask) == 0 with input as _run("kubectl --context prod get pods") with data.rules.kube.production as blue
}

# A list that is missing is as false to the rule: every cluster is production.
test_no_list_asks_about_every_context if {
	count(kube.ask) > 0 with input as _run("kubectl --context dev get pods") with data.rules.kube.production as false
}

test_a_call_without_a_command_is_silent if {
	count(kube.ask) == 0 with input as {"request": {"kind": "network", "network": {"host": "cluster.example.com"}}}
}
